"""The canary: a function that reads an answer through the public address each minute."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.observability_settings import CanarySettings

_EVERY = Duration.minutes(1)


class Canary(PythonFunction):
    """The function and its schedule. It may read the tenants' keys, and nothing else.

    It calls from where clients call.

    Args:
        vpc: the VPC of the clients, where they are in one. None: it calls from the internet.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        canary: CanarySettings,
        url: str,
        tenant_keys: secretsmanager.ISecret,
        key: kms.IKey | None,
        vpc: ec2.IVpc | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            name="canary",
            description="Asks once over every transport, as clients do",
            settings=settings,
            timeout_seconds=canary.timeout_seconds,
            concurrency=None,
            vpc=vpc,
            environment={
                "EVENFLOW_URL": url,
                "EVENFLOW_TENANT_KEYS_SECRET": tenant_keys.secret_arn,
                "EVENFLOW_TENANT": canary.tenant,
                "EVENFLOW_QUESTION": canary.question,
            },
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[tenant_keys.secret_arn]
            )
        )
        if key is not None:
            region = Stack.of(self).region
            self.role.add_to_policy(
                iam.PolicyStatement(
                    actions=["kms:Decrypt"],
                    resources=[key.key_arn],
                    conditions={
                        "StringEquals": {"kms:ViaService": f"secretsmanager.{region}.amazonaws.com"}
                    },
                )
            )
        # Without retries: the next minute tries again, and a failure is counted once.
        events.Rule(
            self,
            "EachMinute",
            description="The canary asks",
            schedule=events.Schedule.rate(_EVERY),
            targets=[targets.LambdaFunction(self.function, retry_attempts=0, max_event_age=_EVERY)],
        )
