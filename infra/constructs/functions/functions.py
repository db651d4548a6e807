"""The functions and their HTTP API."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn, allow_on_usage
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.data.keys import allow_use_of
from evenflow.infra.constructs.data.tables import allow_on_table
from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.constructs.functions.session_api import PollResponse, SessionApi, SessionInit
from evenflow.infra.constructs.variables import limit_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class KeyRotationFunction(PythonFunction):
    """The function and its schedule. Nobody is logged out, since old keys go on verifying."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        signing_keys: secretsmanager.ISecret,
        key: kms.IKey | None,
    ) -> None:
        reserved = settings.functions.reserved_concurrency
        super().__init__(
            scope,
            construct_id,
            name="rotate_signing_keys",
            description="Turns the keys that sign session tokens over",
            settings=settings,
            timeout_seconds=30,
            concurrency=reserved.rotate_signing_keys if reserved else None,
            environment={},
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "secretsmanager:DescribeSecret",
                    "secretsmanager:GetSecretValue",
                    "secretsmanager:PutSecretValue",
                    "secretsmanager:UpdateSecretVersionStage",
                ],
                resources=[signing_keys.secret_arn],
            )
        )
        allow_use_of(key, self.role)
        self.function.add_permission(
            "SecretsManager",
            principal=iam.ServicePrincipal("secretsmanager.amazonaws.com"),
            source_account=Stack.of(self).account,
        )
        # Not the L2: it would add a wildcard, and the key's policy would refer to this stack,
        # which needs the key.
        schedule = secretsmanager.CfnRotationSchedule(
            self,
            "Schedule",
            secret_id=signing_keys.secret_arn,
            rotation_lambda_arn=self.function.function_arn,
            rotation_rules=secretsmanager.CfnRotationSchedule.RotationRulesProperty(
                automatically_after_days=settings.data.signing_key_rotation_days
            ),
        )
        schedule.node.add_dependency(self.function, self.role)


_TIMEOUT_SECONDS = 900  # the longest
# At this size a function has a whole processor: then a day may have some ten million records.
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


class UpkeepFunctions(Construct):
    """The functions that clients do not call: they rotate signing keys and write usage files."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        usage_arn: BucketArn,
    ) -> None:
        super().__init__(scope, construct_id)
        KeyRotationFunction(
            self,
            "KeyRotation",
            settings=settings,
            signing_keys=data.secrets.signing_keys,
            key=data.key,
        )
        self.usage_file = UsageFile(
            self, "UsageFile", settings=settings, data=data, usage_arn=usage_arn
        )


class Functions(UpkeepFunctions):
    """The upkeep, and the functions that open sessions and answer long polls, with an HTTP API."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        usage_arn: BucketArn,
    ) -> None:
        super().__init__(scope, construct_id, settings=settings, data=data, usage_arn=usage_arn)
        tables, secrets, key = data.tables, data.secrets, data.key
        self.session_init = SessionInit(
            self, "SessionInit", settings=settings, tables=tables, secrets=secrets, key=key
        )
        self.poll_response = PollResponse(
            self, "PollResponse", settings=settings, tables=tables, secrets=secrets, key=key
        )
        self.http_api = SessionApi(
            self,
            "SessionApi",
            settings=settings,
            session_init=self.session_init.function,
            poll_response=self.poll_response.function,
        ).http_api
