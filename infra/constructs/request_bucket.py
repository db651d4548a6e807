"""Where handlers keep requests that are too large for an item of the ledger, until their answers have ended."""

from __future__ import annotations

from typing import NamedTuple

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.removal_policy import removal_policy
from infra.settings import EnvironmentSettings

REQUEST_PREFIX = "requests/"  # stream_aws writes below it
# The least that S3 knows. The ledger forgets a message after a day too.
_KEPT = Duration.days(1)


def request_bucket(
    scope: Construct, construct_id: str, *, settings: EnvironmentSettings, key: kms.IKey | None, access_logs: s3.IBucket
) -> s3.Bucket:
    """A private bucket that forgets everything after a day."""
    return s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,  # else each object would be a call of KMS
        enforce_ssl=True,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            s3.LifecycleRule(expiration=_KEPT, abort_incomplete_multipart_upload_after=_KEPT),
        ],
        server_access_logs_bucket=access_logs,
        server_access_logs_prefix="requests/",
        removal_policy=removal_policy(settings),
        auto_delete_objects=not settings.data.keep,
    )


class RequestsArn(NamedTuple):
    """The bucket's ARN for another stack: the export's name, and its value there."""

    export: str
    arn: str


def allow_on_requests(role: iam.Role, bucket: RequestsArn) -> None:
    """Write and read what stands below the prefix; listing and deleting are nobody's: objects go by themselves."""
    below = f"/{REQUEST_PREFIX}*"
    role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject", "s3:PutObject"], resources=[bucket.arn + below]))
    acknowledge(
        role,
        f"IAM5[Resource::{bucket.export}{below}]",
        "each request is an object of its own, named after its response; the prefix is the bound",
    )
