"""The Lambda functions and the HTTP API."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from evenflow.functions.settings import PollResponseSettings, SessionInitSettings, UsageFileSettings
from evenflow.stream_core.tenants.usage import LATE_SECONDS
from tests.infrastructure.synthesis import Synthesis

_RESERVED = ("session_init", "poll_response", "rotate_signing_keys")
_NAMES = (*_RESERVED, "usage_file")


def _functions(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    functions = synthesis.of_type("AWS::Lambda::Function", "functions").values()
    return {
        function["Properties"]["Handler"].split(".")[2]: function["Properties"]
        for function in functions
    }


def _plain_variables(function: dict[str, Any]) -> dict[str, str]:
    """Its variables, with a stand-in for what only a deployment knows."""
    variables = function["Environment"]["Variables"]
    return {
        name: value if isinstance(value, str) else "known-when-deployed"
        for name, value in variables.items()
    }


def test_there_are_four_and_each_handler_exists(dev: Synthesis) -> None:
    functions = _functions(dev)
    assert set(functions) == set(_NAMES)
    for name, function in functions.items():
        assert function["Handler"] == f"evenflow.functions.{name}.handler.handler"
        assert importlib.util.find_spec(f"evenflow.functions.{name}.handler") is not None


def test_they_run_on_graviton_traced_bounded_and_with_a_log_of_their_own(
    synthesis: Synthesis,
) -> None:
    settings = synthesis.settings.functions
    functions = _functions(synthesis)
    for name, function in functions.items():
        assert function["Runtime"] == "python3.12"
        assert function["Architectures"] == ["arm64"]
        assert function["TracingConfig"] == {"Mode": "Active"}
        assert (
            function["FunctionName"]
            == f"evenflow-{synthesis.settings.name}-{name.replace('_', '-')}"
        )
        assert function["LoggingConfig"]["LogGroup"].keys() == {"Ref"}
    concurrency = {name: functions[name].get("ReservedConcurrentExecutions") for name in _RESERVED}
    reserved = settings.reserved_concurrency
    assert concurrency == (reserved.model_dump() if reserved else dict.fromkeys(_RESERVED))
    assert "ReservedConcurrentExecutions" not in functions["usage_file"]
    assert functions["session_init"]["Timeout"] == 15
    assert functions["poll_response"]["Timeout"] == 29


def test_an_account_has_room_for_the_reserved_concurrency(synthesis: Synthesis) -> None:
    """The usual quota is 1,000, of which 100 stay free.

    New accounts have 10 and can reserve nothing: dev works in those.
    """
    reserved = [
        function.get("ReservedConcurrentExecutions", 0)
        for function in _functions(synthesis).values()
    ]
    assert sum(reserved) == 0 if synthesis.settings.name == "dev" else 0 < sum(reserved) <= 900


def test_they_understand_what_they_are_told(synthesis: Synthesis) -> None:
    functions = _functions(synthesis)
    session_init = SessionInitSettings.from_environment(_plain_variables(functions["session_init"]))
    poll_response = PollResponseSettings.from_environment(
        _plain_variables(functions["poll_response"])
    )
    usage_file = UsageFileSettings.from_environment(_plain_variables(functions["usage_file"]))
    for told in (session_init, poll_response, usage_file):
        assert told.limits == synthesis.settings.limits
    assert poll_response.metrics_environment == synthesis.settings.prefix
    assert poll_response.limits.poll_timeout_max_ms / 1000 < functions["poll_response"]["Timeout"]


@pytest.mark.parametrize("name", _NAMES)
def test_powertools_is_told_the_namespace_of_the_alarms(dev: Synthesis, name: str) -> None:
    variables = _functions(dev)[name]["Environment"]["Variables"]
    assert variables["POWERTOOLS_METRICS_NAMESPACE"] == "Evenflow"
    assert variables["POWERTOOLS_SERVICE_NAME"] == name
    assert variables["EVENFLOW_METRICS_ENVIRONMENT"] == "evenflow-dev"


def test_the_api_has_two_paths_and_a_default_for_the_contracts_404(synthesis: Synthesis) -> None:
    routes = {
        route["Properties"]["RouteKey"]: json.dumps(route["Properties"]["Target"])
        for route in synthesis.of_type("AWS::ApiGatewayV2::Route", "functions").values()
    }
    assert set(routes) == {"ANY /session", "ANY /chat/message/{response_id}", "$default"}
    integrations = synthesis.of_type("AWS::ApiGatewayV2::Integration", "functions")
    for integration in integrations.values():
        assert integration["Properties"]["PayloadFormatVersion"] == "2.0"
    called = {
        route: next(
            json.dumps(integration["Properties"]["IntegrationUri"])
            for name, integration in integrations.items()
            if f'"{name}"' in target
        )
        for route, target in routes.items()
    }
    assert "SessionInit" in called["ANY /session"]
    assert "PollResponse" in called["ANY /chat/message/{response_id}"]
    assert "SessionInit" in called["$default"]


def test_the_api_throttles_and_logs(synthesis: Synthesis) -> None:
    stage = synthesis.only("AWS::ApiGatewayV2::Stage", "functions")
    settings = synthesis.settings.functions
    assert stage["StageName"] == "$default"
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": settings.throttle_rate,
        "ThrottlingBurstLimit": settings.throttle_burst,
    }
    session = {
        "ThrottlingRateLimit": settings.session_rate,
        "ThrottlingBurstLimit": settings.session_burst,
    }
    assert stage["RouteSettings"] == {
        "ANY /session": session,
        "$default": session,
    }  # what session_init answers
    assert settings.session_rate < settings.throttle_rate
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert {"requestId", "status", "routeKey", "responseLatency"} <= set(logged)
    assert not {"sourceIp", "authorization"} & {name.lower() for name in logged}


def test_the_throttle_of_a_route_waits_for_the_route(synthesis: Synthesis) -> None:
    (stage,) = synthesis.of_type("AWS::ApiGatewayV2::Stage", "functions").values()
    assert set(synthesis.of_type("AWS::ApiGatewayV2::Route", "functions")) <= set(
        stage["DependsOn"]
    )


def test_handlers_and_functions_are_told_the_same_origins_where_there_are_any(
    choosy: Synthesis, synthesis: Synthesis
) -> None:
    def told(of: Synthesis) -> list[str | None]:
        functions = _functions(of)
        container = of.only("AWS::ECS::TaskDefinition", "service")["ContainerDefinitions"][0]
        handler = {variable["Name"]: variable["Value"] for variable in container["Environment"]}
        variables = [
            handler,
            *(_plain_variables(functions[name]) for name in ("session_init", "poll_response")),
        ]
        return [each.get("EVENFLOW_ALLOWED_ORIGINS") for each in variables]

    assert told(choosy) == ["https://app.example.com,http://localhost:3000"] * 3
    assert told(synthesis) == [None] * 3


def test_usage_is_written_a_quarter_of_an_hour_after_the_end_of_each_day(
    synthesis: Synthesis,
) -> None:
    rule = synthesis.only("AWS::Events::Rule", "functions")
    assert (rule["ScheduleExpression"], rule["State"]) == ("cron(15 0 * * ? *)", "ENABLED")
    (target,) = rule["Targets"]
    assert "UsageFile" in json.dumps(target["Arn"])
    assert LATE_SECONDS == 15 * 60
    function = _functions(synthesis)["usage_file"]
    assert (function["Timeout"], function["MemorySize"]) == (900, 1_769)
