"""The rotation of the signing keys."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.data.keys import allow_use_of
from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class KeyRotation(PythonFunction):
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
