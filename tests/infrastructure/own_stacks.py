"""The inference and observability stacks alone, checked by cdk-nag, beside a load balancer that
stands for the real one.
"""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from cdk_nag import AwsSolutionsChecks

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.stacks import InferenceStack, NetworkStack, ObservabilityStack
from tests.infrastructure.synthesis import ROOT

Template = dict[str, Any]

_BALANCING = "arn:aws:elasticloadbalancing:us-east-1:111111111111:"
_BALANCER = f"{_BALANCING}loadbalancer/app/evenflow/1"


def observability_template(settings: EnvironmentSettings) -> Template:
    """The template of evenflow-<env>-observability."""
    app, env = _app(settings)
    network = NetworkStack(app, "network", settings=settings, env=env)
    group = elbv2.ApplicationTargetGroup.from_target_group_attributes(
        network,
        "handlers",
        target_group_arn=f"{_BALANCING}targetgroup/handlers/1",
        load_balancer_arns=_BALANCER,
    )
    ObservabilityStack(
        app,
        "observability",
        settings=settings,
        load_balancer=elbv2.ApplicationLoadBalancer.from_application_load_balancer_attributes(
            network, "balancer", load_balancer_arn=_BALANCER, security_group_id="sg-1"
        ),
        target_group=group,
        http_api_id="api",
        env=env,
    )
    return _synthesize(app, "observability")


def inference_template(settings: EnvironmentSettings) -> tuple[Template, InferenceStack]:
    """The template of a stack with the model alone, and the stack for what it offers to others."""
    app, env = _app(settings)
    network = NetworkStack(app, "network", settings=settings, env=env)
    stack = InferenceStack(app, "inference", settings=settings, network=network, env=env)
    return _synthesize(app, "inference"), stack


def _app(settings: EnvironmentSettings) -> tuple[cdk.App, cdk.Environment]:
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    return cdk.App(context=context), cdk.Environment(region=settings.region.name)


def _synthesize(app: cdk.App, name: str) -> Template:
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    template: Template = (
        app.synth().get_stack_by_name(name).template
    )  # raises when cdk-nag finds something
    return template


def resources(template: Template, resource_type: str) -> dict[str, Any]:
    """The properties of the resources of a type, by logical id."""
    return {
        logical_id: resource.get("Properties", {})
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == resource_type
    }
