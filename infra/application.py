"""All stacks of one environment."""

from __future__ import annotations

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.constructs.inference.model_access import ModelAccess
from infra.settings import EnvironmentSettings
from infra.stacks.canary_stack import CanaryStack
from infra.stacks.data_stack import DataStack
from infra.stacks.edge_stack import EdgeStack
from infra.stacks.functions_stack import FunctionsStack
from infra.stacks.inference_stack import InferenceStack
from infra.stacks.network_stack import NetworkStack
from infra.stacks.observability_stack import ObservabilityStack
from infra.stacks.service_stack import ServiceStack


def build_application(app: cdk.App, settings: EnvironmentSettings) -> None:
    """Add the environment's stacks to the app. Their account is the one that is deployed to."""
    env, prefix = cdk.Environment(region=settings.region.name), settings.prefix
    network = NetworkStack(app, f"{prefix}-network", settings=settings, env=env)
    data = DataStack(app, f"{prefix}-data", settings=settings, env=env)
    service = ServiceStack(
        app,
        f"{prefix}-service",
        settings=settings,
        network=network,
        data=data,
        model_access=_model_access(app, settings, network, env),
        env=env,
    )
    functions = FunctionsStack(app, f"{prefix}-functions", settings=settings, data=data, env=env)
    edge = EdgeStack(
        app,
        f"{prefix}-edge",
        settings=settings,
        data=data,
        service=service,
        functions=functions,
        env=env,
    )
    if settings.canary is not None:
        CanaryStack(
            app,
            f"{prefix}-canary",
            settings=settings,
            canary=settings.canary,
            url=edge.url,
            data=data,
            env=env,
        )
    ObservabilityStack(
        app,
        f"{prefix}-observability",
        settings=settings,
        load_balancer=service.load_balancer.load_balancer,
        target_group=service.load_balancer.target_group,
        http_api_id=functions.session_api.http_api.api_id,
        env=env,
    )
    for name, value in _tags(settings).items():
        cdk.Tags.of(app).add(name, value)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def _model_access(
    app: cdk.App, settings: EnvironmentSettings, network: NetworkStack, env: cdk.Environment
) -> ModelAccess:
    if settings.inference.kind == "demo":
        return ModelAccess("demo")
    # A stack for each kind: both exist while handlers change from one to the other.
    stack_id = f"{settings.prefix}-{settings.inference.kind}"
    inference = InferenceStack(app, stack_id, settings=settings, network=network, env=env)
    return inference.model_access


def _tags(settings: EnvironmentSettings) -> dict[str, str]:
    return {
        "project": "evenflow",
        "environment": settings.name,
        "owner": settings.owner,
        "managed-by": "cdk",
    }
