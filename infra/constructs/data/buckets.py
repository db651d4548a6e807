"""The buckets of access logs, of requests that are too large for the ledger, and of usage."""

from __future__ import annotations

from typing import NamedTuple

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import removal_policy
from evenflow.infra.settings.environment_settings import EnvironmentSettings


def access_log_bucket(
    scope: Construct, construct_id: str, settings: EnvironmentSettings
) -> s3.Bucket:
    """A bucket for AWS's access logs. They are kept as long as log groups are."""
    return s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,  # the load balancer can't write with another key
        enforce_ssl=True,
        # CloudFront's standard logs are written with an ACL.
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED,
        lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(settings.log_retention_days))],
        removal_policy=removal_policy(settings),
        auto_delete_objects=not settings.data.keep,
    )


REQUEST_PREFIX = "requests/"  # stream_aws writes below it
USAGE_PREFIX = "usage/"  # functions/usage_file writes below it
# The shortest time that S3 offers. The ledger keeps a message for a day, too.
_A_DAY = Duration.days(1)


def request_bucket(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    key: kms.IKey | None,
    access_logs: s3.IBucket,
) -> s3.Bucket:
    """A private bucket that deletes everything after a day."""
    return _private_bucket(
        scope,
        construct_id,
        settings=settings,
        key=key,
        access_logs=access_logs,
        prefix=REQUEST_PREFIX,
        kept=_A_DAY,
    )


def usage_bucket(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    key: kms.IKey | None,
    access_logs: s3.IBucket,
) -> s3.Bucket:
    """A private bucket of the files of each day's usage."""
    return _private_bucket(
        scope,
        construct_id,
        settings=settings,
        key=key,
        access_logs=access_logs,
        prefix=USAGE_PREFIX,
        kept=Duration.days(settings.data.usage_file_days),
    )


def _private_bucket(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    key: kms.IKey | None,
    access_logs: s3.IBucket,
    prefix: str,
    kept: Duration,
) -> s3.Bucket:
    return s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,  # otherwise each object would be a call of KMS
        enforce_ssl=True,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            s3.LifecycleRule(expiration=kept, abort_incomplete_multipart_upload_after=_A_DAY),
        ],
        server_access_logs_bucket=access_logs,
        server_access_logs_prefix=prefix,
        removal_policy=removal_policy(settings),
        auto_delete_objects=not settings.data.keep,
    )


class BucketArn(NamedTuple):
    """A bucket's ARN where it is used, and what findings call it there."""

    finding: str
    arn: str


def allow_on_requests(role: iam.Role, bucket: BucketArn) -> None:
    """Allow writing, reading and deleting below the prefix, not listing."""
    below = f"/{REQUEST_PREFIX}*"
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
            resources=[bucket.arn + below],
        )
    )
    acknowledge(
        role,
        f"IAM5[Resource::{bucket.finding}{below}]",
        "each request is an object of its own, named after its response; the prefix is the bound",
    )


def allow_on_usage(role: iam.Role, bucket: BucketArn) -> None:
    """Allow listing and writing below the prefix, not reading and deleting."""
    below = f"/{USAGE_PREFIX}*"
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[bucket.arn],
            conditions={"StringEquals": {"s3:prefix": USAGE_PREFIX}},
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["s3:AbortMultipartUpload", "s3:PutObject"], resources=[bucket.arn + below]
        )
    )
    acknowledge(
        role,
        f"IAM5[Resource::{bucket.finding}{below}]",
        "each day is an object of its own, named after it; the prefix is the bound",
    )
