"""evenflow-<env>-data"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.data.buckets import RequestsArn
from infra.constructs.data.data import Data
from infra.settings import EnvironmentSettings


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
        # Under a name of our own, since the findings about it are acknowledged by name.
        name = f"{settings.prefix}-requests-arn"
        self.requests_arn = RequestsArn(
            name, self.export_value(self.data.requests.bucket_arn, name=name)
        )
