"""Accepts findings of cdk-nag and CDK, each at its construct and with a reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

_PACK = "AwsSolutions::AwsSolutions-"
_CDK = "Annotation::@aws-cdk/"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept a finding on this construct and on what is in it.

    Args:
        rule: the rule of AWS Solutions without the pack's name, for example `SQS3`. IAM4 and IAM5
            have the finding in brackets, for example `IAM5[Resource::*]`.
        reason: why it is right here.
    """
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=_PACK + rule, reason=reason))


def in_findings(scope: IConstruct, value: str) -> str:
    """A value as cdk-nag writes it: a literal, or `<Resource.Attribute>` for a reference."""
    match cdk.Stack.of(scope).resolve(value):
        case {"Ref": resource}:
            return f"<{resource}>"
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case _:
            return value


def acknowledge_warning(construct: IConstruct, warning: str, reason: str) -> None:
    """Accept a warning of CDK.

    Args:
        warning: its id without `@aws-cdk/`, e.g. `aws-cloudfront-origins:listBucketSecurityRisk`.
        reason: why it is right here.
    """
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=_CDK + warning, reason=reason))
