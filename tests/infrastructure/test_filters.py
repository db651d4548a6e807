"""Content filters reach the handlers that apply them, with what they need."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.infra.constructs.network.task_network import interface_services
from evenflow.infra.constructs.variables import answer_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.inference_settings import FilterSettings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis

_ALL = FilterSettings(
    mode="retract", patterns=("secrets", "card"), action="stop", guardrail="abc123:2"
)
_APPLY = "bedrock:ApplyGuardrail"


def _dev(kind: str, filters: FilterSettings) -> EnvironmentSettings:
    data = environment("dev").model_dump()
    data["inference"]["kind"] = kind
    return EnvironmentSettings.model_validate(data | {"filters": filters})


def _container(synthesis: Synthesis, name: str) -> dict[str, Any]:
    """The variables of a task's container."""
    (container,) = (
        container
        for task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").values()
        for container in task["Properties"]["ContainerDefinitions"]
        if container["Name"] == name
    )
    return {each["Name"]: each["Value"] for each in container["Environment"]}


def _task_role(synthesis: Synthesis, name: str) -> str:
    (role,) = (
        task["Properties"]["TaskRoleArn"]["Fn::GetAtt"][0]
        for task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").values()
        if task["Properties"]["Family"].endswith(f"-{name}")
    )
    return str(role)


def _may_apply(synthesis: Synthesis, name: str) -> list[Any]:
    """The guardrails that a task may apply."""
    role = {"Ref": _task_role(synthesis, name)}
    return [
        statement["Resource"]
        for policy in synthesis.of_type("AWS::IAM::Policy", "service").values()
        if role in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == _APPLY
    ]


def test_handlers_read_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in answer_variables(_dev("demo", _ALL)).items():
        monkeypatch.setenv(name, value)
    read = HandlerSettings()
    assert read.filtering == _ALL.mode
    assert read.filter_patterns == _ALL.patterns
    assert read.filter_action == _ALL.action
    assert read.filter_guardrail == _ALL.guardrail


def test_what_has_the_default_is_not_passed_on() -> None:
    assert FilterSettings().variables == {}
    assert FilterSettings(mode="hold").variables == {"EVENFLOW_FILTERING": "hold"}


@pytest.mark.parametrize("name", ["choosy", "choosy-workers"])
def test_who_filters_may_apply_the_guardrail_whoever_calls_the_model(
    synthesized: Synthesize, name: str
) -> None:
    synthesis = synthesized(name)
    assert _container(synthesis, "handler")["EVENFLOW_FILTER_GUARDRAIL"] == "abc123:2"
    (guardrail,) = _may_apply(synthesis, "handler")
    assert guardrail["Fn::Join"][1][-1].endswith(":guardrail/abc123")


def test_workers_filter_nothing(synthesized: Synthesize) -> None:
    synthesis = synthesized("choosy-workers")
    assert not [name for name in _container(synthesis, "worker") if "FILTER" in name]
    assert _may_apply(synthesis, "worker") == []


@pytest.mark.parametrize("kind", ["demo", "bedrock", "sagemaker"])
def test_guardrails_are_reached_through_one_endpoint(kind: str) -> None:
    services = interface_services(_dev(kind, _ALL)).values()
    assert [service.short_name for service in services].count("bedrock-runtime") == 1
    if kind != "bedrock":
        without = interface_services(_dev(kind, FilterSettings())).values()
        assert "bedrock-runtime" not in [service.short_name for service in without]


@pytest.mark.parametrize(
    "filters",
    [{"mode": "on"}, {"patterns": ["keys"]}, {"patterns": []}, {"guardrail": "abc123"}],
)
def test_what_handlers_refuse_is_refused(filters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(filters))):
        FilterSettings.model_validate(filters)
