"""The key of our own that encrypts tables, secrets and dead letters, where an environment wants one."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.constructs.removal_policy import removal_policy
from infra.settings import EnvironmentSettings


def data_key(scope: Construct, construct_id: str, settings: EnvironmentSettings) -> kms.Key:
    """A key that AWS turns over every year."""
    return kms.Key(
        scope,
        construct_id,
        alias=f"alias/{settings.prefix}-data",
        enable_key_rotation=True,
        removal_policy=removal_policy(settings),
    )


def allow_use_of(key: kms.IKey | None, role: iam.IRole, *further_services: str) -> None:
    """Let a role use the key, but only through the services that hold what it encrypts: tables and secrets, and others where
    they are named.
    """
    if key is None:
        return
    region = Stack.of(role).region
    role.add_to_principal_policy(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            resources=[key.key_arn],
            conditions={
                "StringEquals": {
                    "kms:ViaService": [
                        f"{service}.{region}.amazonaws.com"
                        for service in ("dynamodb", "secretsmanager", *further_services)
                    ]
                }
            },
        )
    )
