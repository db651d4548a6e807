"""Findings of cdk-nag and of CDK itself that we leave as they are, each where it is made and with its reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

_PACK = "AwsSolutions::AwsSolutions-"
_CDK = "Annotation::@aws-cdk/"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Leave a finding as it is, on this construct and what is in it.

    Args:
        rule: as AWS Solutions calls it without the pack's name, e.g. `SQS3`; of IAM4 and IAM5 with the finding in brackets, e.g.
            `IAM5[Resource::*]`.
        reason: why it is right here.
    """
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=_PACK + rule, reason=reason))


def acknowledge_warning(construct: IConstruct, warning: str, reason: str) -> None:
    """Leave a warning of CDK as it is.

    Args:
        warning: its id without `@aws-cdk/`, e.g. `aws-cloudfront-origins:listBucketSecurityRisk`.
        reason: why it is right here.
    """
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=_CDK + warning, reason=reason))
