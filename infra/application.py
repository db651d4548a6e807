"""Builds all stacks of one environment."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.observability_settings import check_somebody_is_paged
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.stacks import (
    CanaryStack,
    CertificateStack,
    DataStack,
    EdgeStack,
    FirewallStack,
    FunctionsStack,
    InferenceStack,
    NetworkStack,
    ObservabilityStack,
    ServiceStack,
)


def build_application(app: cdk.App, settings: EnvironmentSettings) -> None:
    """Add the environment's stacks to the app. The account is that of the deployment.

    Raises:
        NobodyIsPagedError: alarms of staging or prod have no receiver of pages.
    """
    check_somebody_is_paged(settings.name, settings.alarms)
    _bound_roles(app, settings.permissions_boundary)
    env, prefix = cdk.Environment(region=settings.region.name), settings.prefix
    network = NetworkStack(app, f"{prefix}-network", settings=settings, env=env)
    data = DataStack(app, f"{prefix}-data", settings=settings, env=env)
    service = ServiceStack(
        app,
        f"{prefix}-service",
        settings=settings,
        network=network,
        data=data,
        endpoint=_endpoint(app, settings, network, env),
        env=env,
    )
    handlers = service.handlers
    functions = FunctionsStack(
        app, f"{prefix}-functions", settings=settings, data=data, env=env
    ).functions
    edge = EdgeStack(
        app,
        f"{prefix}-edge",
        settings=_with_certificate(app, settings),
        data=data.data,
        handlers=handlers,
        functions=functions,
        firewall=_firewall(app, settings),
        env=env,
    )
    if settings.canary is not None:
        CanaryStack(
            app,
            f"{prefix}-canary",
            settings=settings,
            canary=settings.canary,
            url=edge.url,
            data=data.data,
            env=env,
        )
    ObservabilityStack(
        app,
        f"{prefix}-observability",
        settings=settings,
        load_balancer=handlers.load_balancer.load_balancer,
        target_group=handlers.load_balancer.target_group,
        http_api_id=functions.http_api.api_id,
        env=env,
    )
    for name, value in _tags(settings).items():
        cdk.Tags.of(app).add(name, value)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def _firewall(app: cdk.App, settings: EnvironmentSettings) -> FirewallStack | None:
    firewall = settings.edge.firewall
    if firewall is None:
        return None
    # us-east-1 may have one for each region, so the name has the region.
    stack_id = f"{settings.global_prefix}-firewall"
    return FirewallStack(app, stack_id, settings=settings, firewall=firewall)


def _endpoint(
    app: cdk.App, settings: EnvironmentSettings, network: NetworkStack, env: cdk.Environment
) -> ModelAccess | None:
    if settings.inference.kind != "sagemaker":
        return None
    # A stack of its own, which stays while handlers change to another kind of model.
    stack_id = f"{settings.prefix}-sagemaker"
    return InferenceStack(app, stack_id, settings=settings, network=network, env=env).model_access


def _with_certificate(app: cdk.App, settings: EnvironmentSettings) -> EnvironmentSettings:
    """The settings with a certificate of CloudFront's region, if the edge can't make one."""
    edge = settings.edge
    if edge.certificate_arn or settings.region.name == GLOBAL_REGION:
        return settings
    if edge.domain_name is None or edge.hosted_zone is None:
        return settings
    stack = CertificateStack(
        app,
        # us-east-1 may have one for each region, so the name has the region.
        f"{settings.global_prefix}-certificate",
        settings=settings,
        domain_name=edge.domain_name,
        zone=edge.hosted_zone,
    )
    made = edge.model_copy(update={"certificate_arn": stack.certificate.certificate_arn})
    return settings.model_copy(update={"edge": made})


def _bound_roles(app: cdk.App, policy: str | None) -> None:
    # Stacks read it when they are made, and give it to all roles in them.
    if policy is not None:
        kind = "arn" if policy.startswith("arn:") else "name"
        app.node.set_context("@aws-cdk/core:permissionsBoundary", {kind: policy})


def _tags(settings: EnvironmentSettings) -> dict[str, str]:
    ours = {
        "project": "evenflow",
        **settings.cost_tags,
        "owner": settings.owner,
        "managed-by": "cdk",
    }
    return _merge_tags(ours, settings.tags)


def _merge_tags(ours: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    """Merge our tags with others, which replace ours of the same name in any case."""
    replaced = {key.lower() for key in tags}
    return {key: value for key, value in ours.items() if key not in replaced} | dict(tags)
