"""Where the load balancer, CloudFront and the buckets write who called."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.removal_policy import removal_policy
from infra.settings import EnvironmentSettings


def access_log_bucket(scope: Construct, construct_id: str, settings: EnvironmentSettings) -> s3.Bucket:
    """A bucket that AWS's log deliveries write to; entries go when log groups would drop them."""
    return s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,  # the load balancer can't write with a key of ours
        enforce_ssl=True,
        # CloudFront's standard logs are written with an ACL.
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED,
        lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(settings.log_retention_days))],
        removal_policy=removal_policy(settings),
        auto_delete_objects=not settings.data.keep,
    )
