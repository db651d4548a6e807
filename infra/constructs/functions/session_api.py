"""The HTTP API, and the functions behind it that open sessions and answer long polls."""

from __future__ import annotations

import json

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.data.keys import KeySecrets, allow_use_of
from evenflow.infra.constructs.data.tables import Tables, allow_on_table
from evenflow.infra.constructs.functions.python_function import PythonFunction
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.constructs.variables import (
    limit_variables,
    oidc_variables,
    open_tenant_variables,
    origin_variables,
    session_agent_variables,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.http.routes import OPEN_SESSION, POLL

_ACCESS_LOG = {
    name: f"$context.{name}"
    for name in (
        "requestId",
        "requestTime",
        "httpMethod",
        "routeKey",
        "status",
        "protocol",
        "responseLength",
        "responseLatency",
        "integrationErrorMessage",
    )
}


class SessionApi(Construct):
    """Two routes for any method, and a default.

    The functions answer 404 and 405 themselves, since the API can't in Evenflow's shape of errors.
    Calls above the throttle are answered with 429; session_init has a throttle of its own. Callers'
    addresses and tokens are not logged.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        session_init: lambda_.IFunction,
        poll_response: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        self.http_api = apigateway.HttpApi(
            self,
            "Api",
            api_name=settings.prefix,
            description="Sessions and long-polls",
            create_default_stage=False,
            default_integration=integrations.HttpLambdaIntegration("NoRoute", session_init),
        )
        routes = [
            route
            for path, name, function in (
                (OPEN_SESSION.path, "SessionInit", session_init),
                (POLL.path, "PollResponse", poll_response),
            )
            for route in self.http_api.add_routes(
                path=path,
                methods=[apigateway.HttpMethod.ANY],
                integration=integrations.HttpLambdaIntegration(name, function),
            )
        ]
        acknowledge(
            self.http_api,
            "APIG4",
            "the functions check tenant keys and session tokens themselves, as the handler does",
        )
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.http_api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=settings.functions.throttle_rate,
                burst_limit=settings.functions.throttle_burst,
            ),
        )
        # A throttle can only be set for a route that exists.
        stage.node.add_dependency(*routes, self.http_api.node.find_child("DefaultRoute"))
        resource = stage.node.default_child
        assert isinstance(resource, apigateway.CfnStage)  # noqa: S101 - what the L2 is made of
        self._throttle_sessions(resource, settings)
        self._log_access(resource, settings)

    def _throttle_sessions(self, stage: apigateway.CfnStage, settings: EnvironmentSettings) -> None:
        throttle = {
            "ThrottlingRateLimit": settings.functions.session_rate,
            "ThrottlingBurstLimit": settings.functions.session_burst,
        }
        stage.route_settings = {f"ANY {OPEN_SESSION.path}": throttle, "$default": throttle}

    def _log_access(self, stage: apigateway.CfnStage, settings: EnvironmentSettings) -> None:
        # With this prefix it is not part of the resource policy that an account's other log
        # deliveries share.
        destination = log_group(
            self, "AccessLog", f"/aws/vendedlogs/{settings.log_path}/http-api", settings
        )
        # The L2 takes log settings from TypeScript only.
        stage.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=destination.log_group_arn, format=json.dumps(_ACCESS_LOG)
        )


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
