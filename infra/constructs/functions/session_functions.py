"""The functions behind the HTTP API: they open sessions and answer long polls."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.data.keys import KeySecrets, allow_use_of
from evenflow.infra.constructs.data.tables import Tables, allow_on_table
from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.constructs.variables import (
    limit_variables,
    oidc_variables,
    open_tenant_variables,
    origin_variables,
    session_agent_variables,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class SessionInit(PythonFunction):
    """The function for POST /session."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        tables: Tables,
        secrets: KeySecrets,
        key: kms.IKey | None,
    ) -> None:
        reserved = settings.functions.reserved_concurrency
        super().__init__(
            scope,
            construct_id,
            name="session_init",
            description="Opens a session: checks the tenant's key, signs a token",
            settings=settings,
            timeout_seconds=settings.functions.session_init_timeout_seconds,
            concurrency=reserved.session_init if reserved else None,
            environment={
                **limit_variables(
                    settings.limits,
                    "session_token_ttl_seconds",
                    "sessions_per_address_per_second",
                ),
                **origin_variables(settings),
                **session_agent_variables(settings),
                **open_tenant_variables(settings),
                **oidc_variables(settings),
                "EVENFLOW_EDGE_KEYS_SECRET": secrets.edge_keys.secret_arn,
                "EVENFLOW_TOKEN_KEYS_SECRET": secrets.signing_keys.secret_arn,
                "EVENFLOW_TENANT_KEYS_SECRET": secrets.tenant_keys.secret_arn,
                "EVENFLOW_SESSIONS_TABLE": tables.sessions.table_name,
                "EVENFLOW_TENANTS_TABLE": tables.tenants.table_name,
            },
        )
        self.role.add_to_policy(allow_on_table(tables.sessions, "dynamodb:UpdateItem"))
        self.role.add_to_policy(
            allow_on_table(tables.tenants, "dynamodb:GetItem", "dynamodb:Query")
        )
        _may_read(self.role, secrets.edge_keys, secrets.signing_keys, secrets.tenant_keys)
        allow_use_of(key, self.role)


class PollResponse(PythonFunction):
    """The function for GET /chat/message/{response_id}."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        tables: Tables,
        secrets: KeySecrets,
        key: kms.IKey | None,
    ) -> None:
        reserved = settings.functions.reserved_concurrency
        super().__init__(
            scope,
            construct_id,
            name="poll_response",
            description="Answers a long-poll from the response buffer",
            settings=settings,
            timeout_seconds=settings.functions.poll_response_timeout_seconds,
            concurrency=reserved.poll_response if reserved else None,
            environment={
                **limit_variables(settings.limits, "poll_timeout_max_ms"),
                **origin_variables(settings),
                "EVENFLOW_EDGE_KEYS_SECRET": secrets.edge_keys.secret_arn,
                "EVENFLOW_TOKEN_KEYS_SECRET": secrets.signing_keys.secret_arn,
                "EVENFLOW_RESPONSES_TABLE": tables.responses.table_name,
                "EVENFLOW_TENANTS_TABLE": tables.tenants.table_name,
            },
        )
        # Without the index: a poll knows which response it wants.
        self.role.add_to_policy(
            allow_on_table(
                tables.responses, "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"
            )
        )
        self.role.add_to_policy(
            allow_on_table(tables.tenants, "dynamodb:GetItem", "dynamodb:Query")
        )
        _may_read(self.role, secrets.edge_keys, secrets.signing_keys)
        allow_use_of(key, self.role)


def _may_read(role: iam.Role, *secrets: secretsmanager.ISecret) -> None:
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["secretsmanager:GetSecretValue"],
            resources=[secret.secret_arn for secret in secrets],
        )
    )
