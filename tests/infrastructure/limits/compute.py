"""Limits of functions, of their HTTP API, and of tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from tests.infrastructure.limits.deployment import Deployment, Properties, values
from tests.infrastructure.limits.limit import (
    Fault,
    Limit,
    count,
    number,
    repeated,
    text,
    too_many,
)

_FUNCTION, _LAMBDA_PAGE = "AWS::Lambda::Function", "lambda/latest/dg/gettingstarted-limits.html"
_VARIABLES_PAGE = "lambda/latest/dg/configuration-envvars.html"
_TASK = "AWS::ECS::TaskDefinition"
_CONTAINERS = "ContainerDefinitions[]"
_TASK_PAGE = "AmazonECS/latest/APIReference/API_ContainerDefinition.html"
_UNPACKED = 250 * 1_024 * 1_024
# What Lambda sets itself.
_RESERVED = (
    *("_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV"),
    *("AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR", "AWS_LAMBDA_RUNTIME_API"),
)


def _variables(deployment: Deployment) -> Iterator[tuple[str, str, Properties]]:
    for where, properties in deployment.resources(_FUNCTION):
        for variables in values(properties, "Environment.Variables"):
            yield where, where.partition("/")[0], variables


def _environment_sizes(deployment: Deployment) -> Iterator[str]:
    sizes = {
        where: sum(
            len(name) + len(deployment.text(value, stack).encode())
            for name, value in variables.items()
        )
        for where, stack, variables in _variables(deployment)
    }
    yield from too_many(sizes, 4 * 1_024, "bytes of variables")


def _reserved_names(deployment: Deployment) -> Iterator[str]:
    for where, _, variables in _variables(deployment):
        for name in variables:
            if name in _RESERVED or name.startswith("AWS_LAMBDA_"):
                yield f"{where}: {name}"


def _variable(name: str, value: str = "1") -> Fault:
    def fault(deployment: Deployment) -> None:
        function = deployment.first(_FUNCTION)
        function.setdefault("Environment", {}).setdefault("Variables", {})[name] = value

    return fault


def _package_sizes(deployment: Deployment) -> Iterator[str]:
    layers = {
        where: _asset(deployment, properties["Content"])
        for where, properties in deployment.resources("AWS::Lambda::LayerVersion")
    }
    for where, properties in deployment.resources(_FUNCTION):
        stack = where.partition("/")[0]
        unpacked = _asset(deployment, properties["Code"]) + sum(
            layers[deployment.target(layer, stack)] for layer in properties.get("Layers", ())
        )
        if unpacked > _UNPACKED:
            yield f"{where}: {unpacked:,} bytes with its layers"


def _asset(deployment: Deployment, code: Properties) -> int:
    return deployment.asset_bytes[code["S3Key"].removesuffix(".zip")]


def _large_assets(deployment: Deployment) -> None:
    assert deployment.asset_bytes, "the cloud assembly has no folders of assets"
    deployment.asset_bytes = dict.fromkeys(deployment.asset_bytes, _UNPACKED + 1)


def _task_sizes(deployment: Deployment) -> Iterator[str]:
    sizes = {
        where: deployment.size(properties, where.partition("/")[0])
        for where, properties in deployment.resources(_TASK)
    }
    yield from too_many(sizes, 64 * 1_024, "bytes")


def _long_variable(deployment: Deployment) -> None:
    container = deployment.first(_TASK)["ContainerDefinitions"][0]
    container["Environment"].append({"Name": "LONG", "Value": "x" * 65_536})


def _container_names(deployment: Deployment) -> Iterator[str]:
    for where, properties in deployment.resources(_TASK):
        containers = properties["ContainerDefinitions"]
        yield from too_many(
            Counter(f"{where} {container['Name']}" for container in containers), 1, "containers"
        )
        for container in containers:
            names = [variable["Name"] for variable in container.get("Environment", ())]
            names += [secret["Name"] for secret in container.get("Secrets", ())]
            yield from too_many(Counter(names), 1, f"variables of {container['Name']}")


def _same_container(deployment: Deployment) -> None:
    task = deployment.first(_TASK)
    task["ContainerDefinitions"] = [*task["ContainerDefinitions"], task["ContainerDefinitions"][0]]


def _secret_beside_variable(deployment: Deployment) -> None:
    container = deployment.first(_TASK)["ContainerDefinitions"][0]
    container["Secrets"] = [{"Name": container["Environment"][0]["Name"], "ValueFrom": "arn"}]


def _discovered_names(deployment: Deployment) -> Iterator[str]:
    """Service Connect makes no two endpoints of one name in a namespace."""
    used: Counter[str] = Counter()
    for where, properties in deployment.resources("AWS::ECS::Service"):
        stack = where.partition("/")[0]
        for connect in values(properties, "ServiceConnectConfiguration"):
            for service in connect.get("Services", ()):
                name = service.get("DiscoveryName", service["PortName"])
                used[f"{json.dumps(deployment.document(connect['Namespace'], stack))} {name}"] += 1
    yield from too_many(used, 1, "services")


def _more_connected(deployment: Deployment) -> None:
    for template in deployment.templates.values():
        for name, resource in list(template["Resources"].items()):
            if list(values(resource, "Properties.ServiceConnectConfiguration.Services")):
                template["Resources"][f"{name}Again"] = resource


LIMITS = (
    Limit("a function: 4 KB of variables", _LAMBDA_PAGE, _environment_sizes,
          (_variable("LONG", "x" * 4_096),)),
    Limit("a function: no variable that Lambda sets itself", _VARIABLES_PAGE, _reserved_names,
          (_variable("AWS_REGION"),)),
    Limit("a function: 250 MB unpacked, with its layers", _LAMBDA_PAGE, _package_sizes,
          (_large_assets,)),
    count(_FUNCTION, "Layers", _LAMBDA_PAGE, most=5),
    text(_FUNCTION, "FunctionName", "lambda/latest/api/API_CreateFunction.html",
         longest=64, pattern="[a-zA-Z0-9_-]+"),
    number(_FUNCTION, "Timeout", _LAMBDA_PAGE, least=1, most=900),
    number(_FUNCTION, "MemorySize", _LAMBDA_PAGE, least=128, most=10_240),
    number("AWS::ApiGatewayV2::Integration", "TimeoutInMillis",
           "apigateway/latest/developerguide/http-api-quotas.html", least=50, most=30_000,
           optional=True),
    Limit("an HTTP API: 300 routes", "apigateway/latest/developerguide/http-api-quotas.html",
          lambda deployment: too_many(
              Counter(deployment.target(properties["ApiId"], where.partition("/")[0])
                      for where, properties in deployment.resources("AWS::ApiGatewayV2::Route")),
              300, "routes"),
          (lambda deployment: repeated(deployment, "AWS::ApiGatewayV2::Route", 301),)),
    Limit("a task definition: 64 KB", "AmazonECS/latest/developerguide/service-quotas.html",
          _task_sizes, (_long_variable,)),
    count(_TASK, "ContainerDefinitions", "AmazonECS/latest/developerguide/service-quotas.html",
          most=10),
    text(_TASK, f"{_CONTAINERS}.Name", _TASK_PAGE, longest=255, pattern="[a-zA-Z0-9_-]+"),
    Limit("a task: each container once, each variable once", _TASK_PAGE, _container_names,
          (_same_container, _secret_beside_variable)),
    number(_TASK, f"{_CONTAINERS}.StopTimeout", _TASK_PAGE, least=0, most=120),
    number(_TASK, f"{_CONTAINERS}.HealthCheck.Interval",
           "AmazonECS/latest/APIReference/API_HealthCheck.html", least=5, most=300,
           on="staging-traced"),
    text("AWS::ECS::Service", "ServiceName", "AmazonECS/latest/APIReference/API_CreateService.html",
         longest=255, pattern="[a-zA-Z0-9_-]+"),
    text("AWS::ECS::Cluster", "ClusterName", "AmazonECS/latest/APIReference/API_CreateCluster.html",
         longest=255, pattern="[a-zA-Z0-9_-]+"),
    text("AWS::ECS::Service", "ServiceConnectConfiguration.Services[].ClientAliases[].DnsName",
         "AmazonECS/latest/APIReference/API_ServiceConnectClientAlias.html",
         longest=127, pattern="[a-z0-9_.-]+", on="staging-workers"),
    Limit("Service Connect: each name once in a namespace",
          "AmazonECS/latest/APIReference/API_ServiceConnectService.html", _discovered_names,
          (_more_connected,), on="staging-workers"),
    count("AWS::ECS::Service", "LoadBalancers",
          "AmazonECS/latest/APIReference/API_CreateService.html", most=5),
)  # fmt: skip
