"""What AWS's own descriptions of its calls allow, compared with the templates by machine.

CloudFormation makes a resource by a call of its service, with properties that are mostly called as
the call's parameters are. botocore has the pattern, the length, the range and the choice of each.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import regex
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError, Shape

from tests.infrastructure.limits.deployment import Deployment, replace_first
from tests.infrastructure.limits.limit import Fault, Limit

# Where the names of CloudFormation and of botocore differ.
_SERVICES = {
    "ApplicationAutoScaling": "application-autoscaling",
    "CertificateManager": "acm",
    "ElasticLoadBalancingV2": "elbv2",
}
_CALLS = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "RegisterScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "PutScalingPolicy",
    "AWS::Bedrock::ApplicationInferenceProfile": "CreateInferenceProfile",
    "AWS::CertificateManager::Certificate": "RequestCertificate",
    "AWS::CloudWatch::Alarm": "PutMetricAlarm",
    "AWS::CloudWatch::CompositeAlarm": "PutCompositeAlarm",
    "AWS::CloudWatch::Dashboard": "PutDashboard",
    "AWS::EC2::FlowLog": "CreateFlowLogs",
    "AWS::EC2::SecurityGroupEgress": "AuthorizeSecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress": "AuthorizeSecurityGroupIngress",
    "AWS::EC2::SubnetRouteTableAssociation": "AssociateRouteTable",
    "AWS::EC2::VPCEndpoint": "CreateVpcEndpoint",
    "AWS::EC2::VPC": "CreateVpc",
    "AWS::EC2::VPCGatewayAttachment": "AttachInternetGateway",
    "AWS::ECS::TaskDefinition": "RegisterTaskDefinition",
    "AWS::ElasticLoadBalancingV2::ListenerRule": "CreateRule",
    "AWS::Events::Rule": "PutRule",
    "AWS::IAM::Policy": "PutRolePolicy",
    "AWS::Lambda::LayerVersion": "PublishLayerVersion",
    "AWS::Lambda::Permission": "AddPermission",
    "AWS::Route53::RecordSet": "ChangeResourceRecordSets",
    "AWS::S3::BucketPolicy": "PutBucketPolicy",
    "AWS::SNS::Subscription": "Subscribe",
    "AWS::SNS::TopicPolicy": "SetTopicAttributes",
    "AWS::SQS::QueuePolicy": "SetQueueAttributes",
    "AWS::SecretsManager::RotationSchedule": "RotateSecret",
    "AWS::WAFv2::LoggingConfiguration": "PutLoggingConfiguration",
}
# What CloudFormation writes in another way than the call.
_WRITTEN_OTHERWISE = frozenset({"Tags", "Code", "Content"})


class UnmappedResourceError(Exception):
    """No call of AWS is known that makes a type of resource."""


@cache
def _input_shape(kind: str) -> Shape:
    """The parameters of the call that makes a type of resource."""
    _, service, resource = kind.split("::")
    name = _SERVICES.get(service, service.lower())
    try:
        model = botocore.session.get_session().get_service_model(name)
        shape = model.operation_model(_CALLS.get(kind, f"Create{resource}")).input_shape
    except (UnknownServiceError, OperationNotFoundError) as error:
        raise UnmappedResourceError(f"{kind}: {error}; add its call to _CALLS") from error
    assert shape is not None, kind
    return shape


def _refused(shape: Shape, value: Any, where: str) -> Iterator[str]:
    """What the shape does not allow. Nothing is said where CloudFormation's form is another one."""
    if isinstance(value, dict) and shape.type_name == "structure":
        members = {name.lower(): member for name, member in shape.members.items()}
        for name, inner in value.items():
            if name not in _WRITTEN_OTHERWISE and name.lower() in members:
                yield from _refused(members[name.lower()], inner, f"{where}.{name}")
    elif isinstance(value, list):
        if shape.type_name == "structure" and "Items" in shape.members:  # CloudFront's lists
            shape = shape.members["Items"]
        if shape.type_name == "list":
            yield from _out_of_range(shape, len(value), where, "items")
            for number, inner in enumerate(value):
                yield from _refused(shape.member, inner, f"{where}[{number}]")
    elif isinstance(value, str) and shape.type_name == "string":
        yield from _refused_text(shape, value, where)
    elif isinstance(value, int | float) and shape.type_name in ("integer", "long", "double"):
        yield from _out_of_range(shape, value, where, "")


def _refused_text(shape: Shape, value: str, where: str) -> Iterator[str]:
    yield from _out_of_range(shape, len(value), where, "characters")
    if shape.enum and value not in shape.enum:
        yield f"{where}: {value!r} is not one of {shape.enum}"
    pattern = shape.metadata.get("pattern")
    if pattern and not _expression(pattern).fullmatch(value):
        yield f"{where}: {value!r} doesn't match {pattern}"


@cache
def _expression(pattern: str) -> regex.Pattern[str]:
    # These are Java's, which have characters above U+FFFF as pairs.
    return regex.compile(pattern.replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF"))


def _out_of_range(shape: Shape, found: float, where: str, unit: str) -> Iterator[str]:
    least, most = shape.metadata.get("min", -math.inf), shape.metadata.get("max", math.inf)
    if not least <= found <= most:
        yield f"{where}: {found:g} {unit}, and it may be {least:g} to {most:g}"


def _literal(value: Any, deployment: Deployment, stack: str) -> Any:
    """The value with AWS's pseudo parameters put in, and without what refers to resources."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return deployment.text(value, stack) if _is_known(value) else None
        return {key: _literal(inner, deployment, stack) for key, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner, deployment, stack) for inner in value]
    return value


def _is_known(value: Any) -> bool:
    """Whether a value refers to nothing but pseudo parameters."""
    return not re.search(r'"Ref": "(?!AWS::)|\$\{(?!AWS::)|"Fn::(?!Join|Sub)', json.dumps(value))


def _find(deployment: Deployment) -> Iterator[str]:
    for stack, template in deployment.templates.items():
        for name, resource in template["Resources"].items():
            kind = resource["Type"]
            if kind.startswith("AWS::"):
                properties = _literal(resource.get("Properties", {}), deployment, stack)
                yield from _refused(_input_shape(kind), properties, f"{stack}/{name}")


def _set(kind: str, path: str, value: Any) -> Fault:
    return lambda deployment: replace_first(deployment, kind, path, value, optional=True)


LIMITS = (
    Limit(
        "what botocore knows of each call: pattern, length, range and choice",
        "botocore/latest/reference/services/index.html",
        _find,
        (
            _set("AWS::DynamoDB::Table", "BillingMode", "FREE"),
            _set("AWS::CloudWatch::Alarm", "AlarmDescription", "x" * 1_025),
            _set("AWS::CloudWatch::Alarm", "AlarmActions", ["arn"] * 6),
            _set("AWS::CloudWatch::Alarm", "ComparisonOperator", "Above"),
            _set("AWS::IAM::Role", "Description", "a description — with a dash"),
            _set("AWS::Lambda::Function", "MemorySize", 64),
            _set("AWS::WAFv2::WebACL", "Description", "CloudFront's"),
            _set("AWS::KMS::Alias", "AliasName", "alias/a b"),
            _set("AWS::CloudFront::Function", "Name", "viewer.host"),
            _set("AWS::Logs::LogGroup", "LogGroupName", "/a b"),
            _set("AWS::ECS::Service", "LaunchType", "FARGAT"),
        ),
    ),
)
