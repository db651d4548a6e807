"""The whole system on an emulated AWS: deployed by the CDK, its functions and handlers run from
this repository, behind one port.

`make run-aws` and the tests start it here. What is not as it is in AWS: the functions and handlers
run from the working directory, not from the packages and the image (their processor is another
one); handlers listen on 127.0.0.1, on ports of their own; X-Ray tracing is off; and see
`reverse_proxy` and `http_api`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.aws.child_process import ChildProcess
from tests.aws.cloud_assembly import synthesize
from tests.aws.deployment import DeployedFunction, Deployment
from tests.aws.edge_routes import EdgeRoutes, edge_routes
from tests.aws.http_api import LISTENING, SERVING, FunctionAddress, HttpApiConfiguration
from tests.aws.ministack import ministack
from tests.aws.refused_resources import RefusedResource, take_out_refused
from tests.aws.reverse_proxy import configuration
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.server_process import (
    ROOT,
    ServerProcess,
    clean_environment,
    free_port,
    free_ports,
)

HANDLERS = ("handler-a", "handler-b")
_START_SECONDS = 30.0
# Lambda starts as many as it needs when nothing is reserved; these are here from the start.
_UNRESERVED_ENVIRONMENTS = 20
# The entry speaks plain HTTP.
_LOCAL = {"EVENFLOW_COOKIE_SECURE": "false"}
# The ports are chosen here, and nothing listens on the machine's own addresses.
_OF_THE_CONTAINER_ALONE = ("EVENFLOW_HTTP_PORT", "EVENFLOW_HTTP_HOST")


@dataclass(frozen=True)
class RunningSystem:
    """What runs.

    Args:
        url: the entry, which stands for the CloudFront address.
        refused: what was taken out of the stacks before they were deployed.
        handlers: by name.
        handler_environment: the variables that all of them have.
        folder: configuration and logs.
    """

    url: str
    aws: AwsEmulator
    deployment: Deployment
    refused: list[RefusedResource]
    routes: EdgeRoutes
    handlers: Mapping[str, ServerProcess]
    handler_environment: Mapping[str, str]
    folder: Path


@contextmanager
def running_system(
    folder: Path, port: int, variables: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[RunningSystem]:
    """Start everything; end it when left.

    Args:
        folder: an empty one, for configuration and logs.
        port: the entry port.
        variables: further variables of the handlers.
        say: is told each step.

    Raises:
        CdkError, ProcessError: a part did not start.
    """
    started = time.monotonic()

    def step(text: str) -> None:
        say(f"{time.monotonic() - started:5.1f} s  {text}")

    with ExitStack() as stack:
        step("starting an AWS (ministack)")
        aws = stack.enter_context(ministack(folder))
        step(f"it answers on {aws.endpoint}; cdk synth")
        deployment = Deployment(aws, synthesize("dev", folder / "cdk.out", folder / "cdk.log"))
        refused = take_out_refused(deployment.assembly)
        step(f"cdk bootstrap, cdk deploy --all ({len(deployment.assembly.templates)} stacks)")
        deployment.deploy(folder / "cdk.log")
        routes = edge_routes(list(deployment.assembly.templates.values()))
        step("starting two handlers, and the functions' execution environments")
        handler_environment = _handler_environment(
            aws, deployment.container_environment() | dict(variables)
        )
        handlers = {
            name: ServerProcess(folder / f"{name}.log", handler_environment) for name in HANDLERS
        }
        for handler in handlers.values():
            stack.callback(handler.stop)
        http_api_port, page_port = _start_http_api(stack, folder, deployment, routes)
        for handler in handlers.values():
            handler.wait_until_serving()
        step("starting the reverse proxy")
        config = configuration(
            routes,
            {name: handler.port for name, handler in handlers.items()},
            port=port,
            http_api_port=http_api_port,
            page_port=page_port,
            edge_key=_edge_key(deployment, routes),
        )
        _start_proxy(stack, folder, port, config)
        step("everything serves")
        url = f"http://127.0.0.1:{port}"
        yield RunningSystem(
            url, aws, deployment, refused, routes, handlers, handler_environment, folder
        )


def _edge_key(deployment: Deployment, routes: EdgeRoutes) -> str:
    """What CloudFormation would put into the distribution."""
    function = deployment.function(routes.api_routes["ANY /session"])
    secret = deployment.aws.client("secretsmanager").get_secret_value(
        SecretId=function.environment["EVENFLOW_EDGE_KEYS_SECRET"]
    )
    key: str = json.loads(secret["SecretString"])["k1"]
    return key


def _handler_environment(aws: AwsEmulator, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in variables.items() if name not in _OF_THE_CONTAINER_ALONE}
    return aws.environment | kept | _LOCAL


def _start_http_api(
    stack: ExitStack, folder: Path, deployment: Deployment, routes: EdgeRoutes
) -> tuple[int, int]:
    functions = {
        logical_id: deployment.function(logical_id)
        for logical_id in set(routes.api_routes.values())
    }
    addresses = {}
    for logical_id, function in functions.items():
        addresses[logical_id] = FunctionAddress(
            name=function.name,
            arn=function.arn,
            runtime_port=free_port(),
            environments=function.concurrency or _UNRESERVED_ENVIRONMENTS,
            timeout_seconds=function.timeout_seconds,
        )
    http_api_port, page_port = free_ports(2)
    api = HttpApiConfiguration(
        account=deployment.account,
        port=http_api_port,
        page_port=page_port,
        page=str(ROOT / "web" / "dist"),
        routes={
            route_key: functions[logical_id].name
            for route_key, logical_id in routes.api_routes.items()
        },
        functions=list(addresses.values()),
    )
    command = [sys.executable, "-m", "tests.aws.http_api", api.model_dump_json()]
    server = ChildProcess(command, clean_environment({}), folder / "http-api.log")
    stack.callback(server.stop)
    server.wait_until_printed(LISTENING, _START_SECONDS)
    for logical_id, function in functions.items():
        _start_function(stack, folder, deployment.aws, function, addresses[logical_id])
    server.wait_until_printed(SERVING, _START_SECONDS)
    return http_api_port, page_port


def _start_function(
    stack: ExitStack,
    folder: Path,
    aws: AwsEmulator,
    function: DeployedFunction,
    address: FunctionAddress,
) -> None:
    of_lambda = {
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{address.runtime_port}",
        "_HANDLER": function.handler,
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mib),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "FUNCTION_ENVIRONMENTS": str(address.environments),
    }
    environment = clean_environment(function.environment) | aws.environment | of_lambda
    command = [sys.executable, "-m", "tests.aws.function_runtime"]
    stack.callback(ChildProcess(command, environment, folder / f"{function.name}.log").stop)


def _start_proxy(stack: ExitStack, folder: Path, port: int, text: str) -> None:
    path = folder / "haproxy.cfg"
    path.write_text(text)
    proxy = ChildProcess(
        ["haproxy", "-db", "-f", str(path)], dict(os.environ), folder / "haproxy.log"
    )
    stack.callback(proxy.stop)
    proxy.wait_until_accepting(port, _START_SECONDS)
