"""evenflow-<env>-data"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class DataStack(cdk.Stack):
    """What outlives a deployment: tables, secrets, buckets and the queue of dead letters."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.data = Data(self, "Data", settings=settings)
        cdk.CfnOutput(
            self,
            "TenantsTable",
            value=self.data.tables.tenants.table_name,
            description="The table of tenants, for `evenflow tenants` (EVENFLOW_TENANTS_TABLE)",
        )
        cdk.CfnOutput(
            self,
            "UsageBucket",
            value=self.data.usage.bucket_name,
            description="The bucket with a file of each day's usage, below usage/",
        )
        self.requests_arn = self._exported(f"{settings.prefix}-requests-arn", self.data.requests)
        self.usage_arn = self._exported(f"{settings.prefix}-usage-arn", self.data.usage)

    def _exported(self, name: str, bucket: s3.IBucket) -> BucketArn:
        """Under a name of our own, since the findings about it are acknowledged by name."""
        return BucketArn(name, self.export_value(bucket.bucket_arn, name=name))
