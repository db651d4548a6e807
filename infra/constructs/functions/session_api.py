"""The HTTP API in front of the functions."""

from __future__ import annotations

import json

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import log_group
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
