"""The file of each day's usage: a function and its schedule."""

from __future__ import annotations

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn, allow_on_usage
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.data.keys import allow_use_of
from evenflow.infra.constructs.data.tables import allow_on_table
from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.constructs.variables import limit_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings

_TIMEOUT_SECONDS = 900  # the longest
# With so much a function has a whole processor: then a day may have some ten million records.
_MEMORY_MIB = 1_769


class UsageFile(PythonFunction):
    """The function, called a quarter of an hour after each day of UTC.

    It has no queue of dead letters: a day without a file is seen in the bucket by the next call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        usage_arn: BucketArn,
    ) -> None:
        tenants, keys = data.tables.tenants, data.secrets.tenant_keys
        super().__init__(
            scope,
            construct_id,
            name="usage_file",
            description="Writes the file of each day's usage",
            settings=settings,
            timeout_seconds=_TIMEOUT_SECONDS,
            memory_mib=_MEMORY_MIB,
            concurrency=None,
            environment={
                **limit_variables(settings.limits),
                "EVENFLOW_TENANTS_TABLE": tenants.table_name,
                "EVENFLOW_TENANT_KEYS_SECRET": keys.secret_arn,
                "EVENFLOW_USAGE_BUCKET": data.usage.bucket_name,
            },
        )
        self.role.add_to_policy(allow_on_table(tenants, "dynamodb:Query"))
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[keys.secret_arn]
            )
        )
        allow_on_usage(self.role, usage_arn)
        allow_use_of(data.key, self.role, "s3")
        events.Rule(
            self,
            "EachDay",
            description="The file of yesterday's usage is written",
            schedule=events.Schedule.cron(minute="15", hour="0"),
            targets=[targets.LambdaFunction(self.function)],
        )
