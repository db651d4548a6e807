"""The handlers and their load balancer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from evenflow.fargate_handler import scale_in_protection
from evenflow.fargate_handler.gateway.http import cookies
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.infra.constructs.service.load_balancer import path_rules
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.base.agents import agents_from_json
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.public_models import parse_models
from evenflow.stream_core.metrics.metric_catalogue import NODE_LOAD
from tests.infrastructure.synthesis import Synthesis


def _container(synthesis: Synthesis) -> dict[str, Any]:
    (container,) = synthesis.only("AWS::ECS::TaskDefinition", "service")["ContainerDefinitions"]
    found: dict[str, Any] = container
    return found


def _variables(synthesis: Synthesis) -> dict[str, Any]:
    return {
        variable["Name"]: variable["Value"] for variable in _container(synthesis)["Environment"]
    }


def _target_group(synthesis: Synthesis) -> dict[str, Any]:
    return synthesis.only("AWS::ElasticLoadBalancingV2::TargetGroup", "service")


def _attributes(properties: dict[str, Any], name: str) -> dict[str, str]:
    return {attribute["Key"]: attribute["Value"] for attribute in properties[name]}


def test_readers_stay_with_their_task_by_the_cookie_that_it_sets(synthesis: Synthesis) -> None:
    group = _target_group(synthesis)
    attributes = _attributes(group, "TargetGroupAttributes")
    assert attributes["stickiness.enabled"] == "true"
    assert attributes["stickiness.type"] == "app_cookie"
    assert attributes["stickiness.app_cookie.cookie_name"] == cookies.STICKY_COOKIE == "WSID"
    assert (
        attributes["stickiness.app_cookie.duration_seconds"]
        == str(cookies.STICKY_SECONDS)
        == "3600"
    )


def test_tasks_are_checked_at_health_every_ten_seconds(synthesis: Synthesis) -> None:
    group = _target_group(synthesis)
    assert group["HealthCheckIntervalSeconds"] == 10
    assert group["HealthCheckPath"] == "/health"
    assert group["HealthCheckPort"] == "8080"
    assert group["HealthCheckProtocol"] == "HTTP"


def test_the_load_balancer_takes_the_codes_of_its_health_check(synthesis: Synthesis) -> None:
    """API reference, Matcher.HttpCode: "For Application Load Balancers, you can specify values
    between 200 and 499".
    """
    group = _target_group(synthesis)
    codes = [
        int(code) for part in group["Matcher"]["HttpCode"].split(",") for code in part.split("-")
    ]
    assert codes == [200]
    assert all(200 <= code <= 499 for code in codes)


def test_new_readers_go_where_there_are_fewest(synthesis: Synthesis) -> None:
    group = _target_group(synthesis)
    algorithm = _attributes(group, "TargetGroupAttributes")["load_balancing.algorithm.type"]
    assert algorithm == "least_outstanding_requests"


def test_leaving_has_time(synthesis: Synthesis) -> None:
    drain = float(_variables(synthesis)["EVENFLOW_DRAIN_SECONDS"])
    assert drain == 105
    # The last writes, HTTP and the last metrics have 5, 1 and 3 seconds behind the drain.
    assert drain + 5 + 1 + 3 < _container(synthesis)["StopTimeout"] == 120
    group = _target_group(synthesis)
    delay = _attributes(group, "TargetGroupAttributes")["deregistration_delay.timeout_seconds"]
    assert scale_in_protection._DEACTIVATION_LOOK_SECONDS[1] + drain < int(delay) == 120


def test_the_load_balancer_is_internal_and_waits_longer_than_a_heartbeat(
    synthesis: Synthesis,
) -> None:
    balancer = synthesis.only("AWS::ElasticLoadBalancingV2::LoadBalancer", "service")
    assert balancer["Scheme"] == "internal"
    attributes = _attributes(balancer, "LoadBalancerAttributes")
    assert (
        int(attributes["idle_timeout.timeout_seconds"])
        > 2 * synthesis.settings.limits.heartbeat_seconds
    )
    assert attributes["access_logs.s3.enabled"] == "true"


def test_patterns_are_divided_by_values_and_by_wildcards() -> None:
    assert path_rules(["/a", "/b", "/c", "/d", "/e", "/f"]) == [
        ["/a", "/b", "/c", "/d", "/e"],
        ["/f"],
    ]
    assert path_rules(["/a/*/*/*", "/b/*?", "/c/*", "/d"]) == [
        ["/a/*/*/*", "/b/*?"],
        ["/c/*", "/d"],
    ]


def test_paths_of_clients_go_to_the_handlers_and_nothing_else_is_answered(
    synthesis: Synthesis,
) -> None:
    rules = synthesis.of_type("AWS::ElasticLoadBalancingV2::ListenerRule", "service").values()
    paths: list[str] = []
    for rule in rules:
        (condition,) = rule["Properties"]["Conditions"]
        patterns = condition["PathPatternConfig"]["Values"]
        paths += patterns
    assert sorted(paths) == [
        "/*api.json",
        "/agui*",
        "/api/chat*",
        "/chat/message",
        "/chat/message/*/cancel",
        "/chat/message/*/entries/*",
        "/chat/message/*/events",
        "/chat/message/*/presence",
        "/chat/message/*/tool-results",
        "/realtime",
        "/session/*",
        "/streams/*",
        "/usage",
        "/v1/*",
        "/ws",
    ]
    assert _target_group(synthesis)["Port"] == 8080
    (default,) = synthesis.only("AWS::ElasticLoadBalancingV2::Listener", "service")[
        "DefaultActions"
    ]
    assert default["Type"] == "fixed-response"
    assert default["FixedResponseConfig"]["StatusCode"] == "404"


def test_the_handler_knows_every_variable_that_it_is_given(synthesis: Synthesis) -> None:
    known = {f"EVENFLOW_{name.upper()}" for name in HandlerSettings.model_fields}
    given = set(_variables(synthesis)) - {"AWS_REGION", "AWS_ACCOUNT_ID_ENDPOINT_MODE"}
    assert given <= known
    assert {"EVENFLOW_STORE", "EVENFLOW_METRICS", "EVENFLOW_TOKEN_KEYS_SECRET"} <= given


def test_the_handler_is_told_where_the_keys_of_the_tenants_are(synthesis: Synthesis) -> None:
    assert (
        _secret_named_by(synthesis, "EVENFLOW_TENANT_KEYS_SECRET")
        == f"{synthesis.settings.prefix}-tenant-keys"
    )
    assert (
        _secret_named_by(synthesis, "EVENFLOW_TOKEN_KEYS_SECRET")
        == f"{synthesis.settings.prefix}-signing-keys"
    )


def _secret_named_by(synthesis: Synthesis, variable: str) -> str:
    (name,) = (
        secret["Properties"]["Name"]
        for logical_id, secret in synthesis.of_type("AWS::SecretsManager::Secret", "data").items()
        if logical_id in json.dumps(_variables(synthesis)[variable])
    )
    found: str = name
    return found


def test_limits_reach_the_handler_as_the_settings_say(synthesis: Synthesis) -> None:
    given = {
        name: _variables(synthesis).get(f"EVENFLOW_{name.upper()}") for name in Limits.model_fields
    }
    assert (
        Limits.model_validate({k: v for k, v in given.items() if v is not None})
        == synthesis.settings.limits
    )


def test_the_handler_is_told_where_dead_letters_go(synthesis: Synthesis) -> None:
    (queue,) = synthesis.of_type("AWS::SQS::Queue", "data")
    assert queue in json.dumps(_variables(synthesis)["EVENFLOW_DEAD_LETTERS_QUEUE"])


def test_clients_see_public_names_of_models_alone(synthesis: Synthesis) -> None:
    variables, inference = _variables(synthesis), synthesis.settings.inference
    if inference.kind == "demo":
        assert "EVENFLOW_MODELS" not in variables
    else:
        assert parse_models(variables["EVENFLOW_MODELS"]) == {
            inference.bedrock.foundation_model: ""
        }


def test_agents_reach_the_handler_whole_and_the_function_without_their_instructions(
    choosy: Synthesis,
) -> None:
    assert _variables(choosy)["EVENFLOW_MODELS"] == "gpt-4o-mini="
    assert (
        agents_from_json(_variables(choosy)["EVENFLOW_AGENTS_JSON"], "") == choosy.settings.agents
    )
    (function,) = (
        function["Properties"]["Environment"]["Variables"]
        for function in choosy.of_type("AWS::Lambda::Function", "functions").values()
        if "session_init" in function["Properties"]["Handler"]
    )
    assert json.loads(function["EVENFLOW_AGENTS_JSON"]) == {
        "support": {"suggestions": ["Where is my order?"]}
    }
    assert function["EVENFLOW_MODEL"] == "sagemaker"


def test_the_identity_provider_is_told_to_handlers_and_to_the_function_that_opens_sessions(
    choosy: Synthesis, dev: Synthesis
) -> None:
    of_functions = [
        function["Properties"]["Environment"]["Variables"]
        for function in choosy.of_type("AWS::Lambda::Function", "functions").values()
    ]
    (function,) = (told for told in of_functions if "EVENFLOW_OIDC_ISSUER" in told)
    assert "EVENFLOW_SESSIONS_TABLE" in function
    for told in (function, _variables(choosy)):
        given = {name: value for name, value in told.items() if isinstance(value, str)}
        assert OidcSettings.from_variables(given) == choosy.settings.oidc
    assert not [name for name in _variables(dev) if name.startswith("EVENFLOW_OIDC")]


def test_the_handler_is_told_its_model(synthesis: Synthesis) -> None:
    variables, kind = _variables(synthesis), synthesis.settings.inference.kind
    assert variables["EVENFLOW_MODEL"] == kind
    assert ("EVENFLOW_MODEL_NAME" in variables) is (kind != "demo")


def test_tasks_are_graviton_read_only_and_nobody(synthesis: Synthesis) -> None:
    task = synthesis.only("AWS::ECS::TaskDefinition", "service")
    container = _container(synthesis)
    assert task["RuntimePlatform"] == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}
    assert task["NetworkMode"] == "awsvpc"
    assert task["RequiresCompatibilities"] == ["FARGATE"]
    assert container["ReadonlyRootFilesystem"] is True
    assert container["User"] == "10001:10001"
    assert container["LinuxParameters"]["Capabilities"] == {"Drop": ["ALL"]}
    (files,) = container["Ulimits"]
    assert (files["Name"], files["SoftLimit"] >= 65_535) == ("nofile", True)
    assert files["SoftLimit"] > 4 * synthesis.settings.limits.connections_per_node
    assert container["LogConfiguration"]["Options"]["mode"] == "non-blocking"


def test_tasks_have_no_shell(synthesis: Synthesis) -> None:
    service = synthesis.only("AWS::ECS::Service", "service")
    assert service["EnableExecuteCommand"] is False


def test_a_deployment_keeps_all_tasks_and_adds_some_at_a_time(synthesis: Synthesis) -> None:
    service = synthesis.only("AWS::ECS::Service", "service")
    deployment = service["DeploymentConfiguration"]
    assert deployment["MinimumHealthyPercent"] == 100
    # Some at a time, since all that leave send their readers away at once; but one at least.
    tasks, percent = synthesis.settings.handler.tasks_min, deployment["MaximumPercent"]
    assert percent == synthesis.settings.handler.deployment_percent
    assert tasks < tasks * percent // 100 <= tasks + 1


def test_a_deployment_does_not_set_the_number_of_tasks_back(synthesis: Synthesis) -> None:
    assert "DesiredCount" not in synthesis.only("AWS::ECS::Service", "service")
    target = synthesis.only("AWS::ApplicationAutoScaling::ScalableTarget", "service")
    handler = synthesis.settings.handler
    assert (target["MinCapacity"], target["MaxCapacity"]) == (handler.tasks_min, handler.tasks_max)


def test_tasks_are_added_for_their_load_and_for_a_surge(synthesis: Synthesis) -> None:
    handler = synthesis.settings.handler
    policies = [
        policy["Properties"]
        for policy in synthesis.of_type(
            "AWS::ApplicationAutoScaling::ScalingPolicy", "service"
        ).values()
    ]
    tracking = [
        p["TargetTrackingScalingPolicyConfiguration"]
        for p in policies
        if p["PolicyType"].startswith("Target")
    ]
    (load,) = tracking
    assert load["CustomizedMetricSpecification"] == {
        "Namespace": "Evenflow",
        "MetricName": NODE_LOAD.name,
        "Dimensions": [{"Name": "Environment", "Value": synthesis.settings.prefix}],
        "Statistic": "Average",
    }
    assert load["TargetValue"] == handler.load_percent
    (surge,) = (
        p["StepScalingPolicyConfiguration"] for p in policies if p["PolicyType"] == "StepScaling"
    )
    assert surge["Cooldown"] == 180  # a new task's first minute is published by then
    assert [step["ScalingAdjustment"] for step in surge["StepAdjustments"]] == [
        tasks for _, tasks in handler.surge_load
    ]


@pytest.mark.parametrize(
    ("answer", "alive"), [("200 OK", True), ("503 Service Unavailable", True), ("500 No", False)]
)
def test_the_container_is_alive_while_it_answers(
    dev: Synthesis, answering_health: Any, answer: str, alive: bool
) -> None:
    """The command is the template's own; only its port is another, since 8080 may be taken here."""
    kind, python, *arguments = _container(dev)["HealthCheck"]["Command"]
    assert (kind, python) == ("CMD", "python")
    with answering_health(answer) as port:
        arguments[-1] = arguments[-1].replace("8080", str(port))
        done = subprocess.run([sys.executable, *arguments], check=False, timeout=10)
    assert (done.returncode == 0) is alive
