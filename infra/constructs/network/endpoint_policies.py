"""The policies of the VPC endpoints: which credentials and resources they accept.

Tasks without a way to the internet still reach AWS' services, and through them other accounts. So
an endpoint accepts only the credentials and only the resources of this account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.image_reference import ecr_image

_PRINCIPAL, _RESOURCE = "aws:PrincipalAccount", "aws:ResourceAccount"


def restrict_endpoint(
    endpoint: ec2.VpcEndpoint, service: str, stack: Stack, settings: EnvironmentSettings
) -> None:
    """Set the policy of an endpoint.

    Args:
        service: the end of the service's name, such as `ecr.api`.
    """
    for statement in _OF_SERVICES.get(service, _own_resources)(stack, settings):
        endpoint.add_to_policy(statement)


Statements = list[iam.PolicyStatement]


def _own_resources(stack: Stack, _settings: EnvironmentSettings) -> Statements:
    return [_allow({_PRINCIPAL: stack.account, _RESOURCE: stack.account})]


def _without_resources(stack: Stack, _settings: EnvironmentSettings) -> Statements:
    # These services have no resources: data is written to the caller's account.
    return [_allow({_PRINCIPAL: stack.account})]


def _images(stack: Stack, settings: EnvironmentSettings) -> Statements:
    references = (settings.image, settings.tracing and settings.tracing.collector_image)
    images = [ecr_image(reference) for reference in references if reference]
    accounts = [stack.account, *sorted({image.account for image in images if image})]
    return [
        _allow({_PRINCIPAL: stack.account}, ["ecr:GetAuthorizationToken"]),  # it has no resource
        _allow({_PRINCIPAL: stack.account, _RESOURCE: accounts}),
    ]


def _objects(stack: Stack, settings: EnvironmentSettings) -> Statements:
    region, partition = settings.region.name, stack.partition
    # ECR keeps the layers of images in a bucket of its own, and signs the addresses itself.
    layers = f"arn:{partition}:s3:::prod-{region}-starport-layer-bucket/*"
    statements = [
        *_own_resources(stack, settings),
        _allow({}, ["s3:GetObject"], [layers]),
    ]
    weights = settings.inference.sagemaker.model_bucket_and_prefix
    if settings.inference.kind == "sagemaker" and weights is not None:
        # The weights may be in another account.
        bucket, prefix = (f"arn:{partition}:s3:::{weights[0]}", weights[1])
        statements.append(
            _allow(
                {_PRINCIPAL: stack.account},
                ["s3:GetObject", "s3:ListBucket"],
                [bucket, f"{bucket}/{prefix}*"],
            )
        )
    return statements


def _models(stack: Stack, settings: EnvironmentSettings) -> Statements:
    """Resources by ARN, since neither models nor AWS's own profiles belong to our account."""
    bedrock = f"arn:{stack.partition}:bedrock"
    guardrails = (settings.filters.guardrail, settings.inference.bedrock.guardrail)
    foreign = {name.rpartition(":")[0] for name in guardrails if name and name.startswith("arn:")}
    resources = [f"{bedrock}:*:{stack.account}:*", f"{bedrock}:*::foundation-model/*"]
    return [_allow({_PRINCIPAL: stack.account}, ["bedrock:*"], [*resources, *sorted(foreign)])]


def _own_endpoints(stack: Stack, settings: EnvironmentSettings) -> Statements:
    endpoints = stack.format_arn(service="sagemaker", resource="endpoint", resource_name="*")
    return [_allow({_PRINCIPAL: stack.account}, ["sagemaker:*"], [endpoints])]


_OF_SERVICES: Mapping[str, Callable[[Stack, EnvironmentSettings], Statements]] = {
    "bedrock-runtime": _models,
    "ecr.api": _images,
    "ecr.dkr": _images,
    "monitoring": _without_resources,
    "s3": _objects,
    "sagemaker.runtime": _own_endpoints,
    "xray": _without_resources,
}
"""Other services have `_own_resources`."""


def _allow(
    equals: Mapping[str, str | Sequence[str]],
    actions: Sequence[str] = ("*",),
    resources: Sequence[str] = ("*",),
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()],
        actions=list(actions),
        resources=list(resources),
        conditions={"StringEquals": dict(equals)} if equals else None,
    )
