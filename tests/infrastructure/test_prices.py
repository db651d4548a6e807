"""What models cost reaches handlers by the names that they have there, and `evenflow tenants`."""

from __future__ import annotations

import subprocess
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from pydantic import ValidationError

from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.infra.constructs.inference.model import model_access
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.variables import price_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.inference_settings import ModelPrice
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from evenflow.tenants import check_prices
from tests.infrastructure.synthesis import Synthesis

_PRICE = ModelPrice(input=1, output=5.25)
_PROFILE_ID = "a1b2c3d4e5f6"
_PROFILE = f"arn:aws:bedrock:us-east-1:111111111111:application-inference-profile/{_PROFILE_ID}"


def _deployed(value: Any) -> Any:
    """What CloudFormation makes of a value. Every resource has the same ARN."""
    match value:
        case {"Fn::Join": [by, parts]}:
            return by.join(_deployed(part) for part in parts)
        case {"Fn::Select": [number, of]}:
            return _deployed(of)[int(number)]
        case {"Fn::Split": [by, text]}:
            return _deployed(text).split(by)
        case {"Fn::GetAtt": [_, "InferenceProfileArn"]}:
            return _PROFILE
        case {"Ref": _} | {"Fn::ImportValue": _}:
            return "evenflow-tenants"
    return value


def _variables(settings: EnvironmentSettings, *, workers: bool = False) -> dict[str, str]:
    """The handlers' variables of the model and its price."""
    stack = cdk.Stack(cdk.App(), "model", env=cdk.Environment(region=settings.region.name))
    access = model_access(stack, settings, ec2.Vpc(stack, "Vpc"))
    access = access.behind("workers:50051") if workers else access
    given = access.variables | price_variables(settings, access.name_in_log)
    return {name: _deployed(stack.resolve(value)) for name, value in given.items()}


def _changed(**inference: Any) -> EnvironmentSettings:
    data = environment("dev").model_dump()
    agents = inference.pop("agents", {})
    data["inference"] |= inference
    return EnvironmentSettings.model_validate(data | {"agents": agents})


@pytest.mark.parametrize("kind", ["demo", "bedrock", "sagemaker"])
@pytest.mark.parametrize("workers", [False, True])
def test_the_price_has_the_name_that_handlers_look_it_up_by(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, workers: bool
) -> None:
    for name, value in _variables(_changed(kind=kind, price=_PRICE), workers=workers).items():
        monkeypatch.setenv(name, value)
    settings = HandlerSettings()
    assert settings.prices.by_model == {settings.own_model_name: (1.0, 5.25, 1.0, 1.0)}


def test_of_a_profile_it_is_the_id_which_is_made_at_the_deployment() -> None:
    variables = _variables(_changed(kind="bedrock", price=_PRICE))
    assert variables["EVENFLOW_MODEL_PRICES"] == f"{_PROFILE_ID}=1/5.25"


def test_without_a_price_there_is_no_variable() -> None:
    assert "EVENFLOW_MODEL_PRICES" not in _variables(_changed(kind="bedrock"))


def test_small_prices_are_told_to_the_last_digit() -> None:
    settings = _changed(kind="demo", price={"input": 0.0375, "output": 1234.5678})
    told = price_variables(settings, ModelAccess("demo").name_in_log)
    assert told == {"EVENFLOW_MODEL_PRICES": "demo=0.0375/1234.5678"}


@pytest.mark.parametrize(
    ("inference", "why"),
    [
        ({"price": {"input": -1, "output": 5}}, "greater than or equal to 0"),
        ({"price": {"input": 1}}, "inference.price.output\n  Field required"),
        ({"price": _PRICE, "prices": {"a,b": _PRICE}}, "inference.prices\n  .*has 'a'"),
        ({"price": _PRICE, "prices": {" big": _PRICE}}, "no space at its ends"),
        ({"models": "a=x,a=y"}, "inference.models\n  .*is there already"),
        (
            {"price": _PRICE, "prices": {"big": _PRICE}},
            "has 'big', which neither inference.models nor an agent names",
        ),
        ({"models": "fast=,deep=big", "prices": {"big": _PRICE}}, "inference.price must be set"),
        ({"models": "fast=,deep=big", "price": _PRICE}, "inference.prices must have 'big'"),
        ({"agents": {"a": {"model": "big"}}, "price": _PRICE}, "inference.prices must have 'big'"),
    ],
)
def test_prices_that_handlers_or_tenants_could_not_use_are_refused(
    inference: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        _changed(kind="demo", **inference)


def test_models_that_agents_and_clients_name_have_prices_of_their_own() -> None:
    settings = _changed(
        kind="sagemaker",
        models="fast=,deep=big",
        agents={"a": {"model": "deep"}, "b": {"model": "fast"}, "c": {"model": "small"}},
        price=_PRICE,
        prices={"big": {"input": 2, "output": 10}, "small": {"input": 0, "output": 0}},
    )
    assert _variables(settings)["EVENFLOW_MODEL_PRICES"] == (
        "evenflow-dev-model=1/5.25,big=2/10,small=0/0"
    )


@pytest.mark.parametrize(
    ("cache", "entry"),
    [
        ({"cached": 0.1}, "1/5.25/0.1/1"),
        ({"written": 1.25}, "1/5.25/1/1.25"),
        ({"cached": 0.1, "written": 1.25}, "1/5.25/0.1/1.25"),
    ],
)
def test_the_prompt_s_cache_has_prices_of_its_own(cache: dict[str, float], entry: str) -> None:
    assert ModelPrice(input=1, output=5.25, **cache).entry("m") == f"m={entry}"


def test_handlers_are_told(choosy: Synthesis) -> None:
    (container,) = choosy.only("AWS::ECS::TaskDefinition", "service")["ContainerDefinitions"]
    told = {each["Name"]: each["Value"] for each in container["Environment"]}
    assert told["EVENFLOW_MODEL_PRICES"] == "evenflow-dev-model=0.5/2"


def _evaluated(synthesis: Synthesis) -> dict[str, str]:
    """The variables of a shell that evaluates the output."""
    output = _deployed(synthesis.templates["service"]["Outputs"]["TenantsVariables"]["Value"])
    shell = ["/bin/sh", "-c", 'eval "$1"; env', "sh", output]
    ran = subprocess.run(shell, env={}, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in ran.stdout.splitlines())


def _add_budget_with(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert variables["EVENFLOW_TENANTS_TABLE"].endswith("-tenants")
    assert (variables["EVENFLOW_STORE"], variables["AWS_REGION"]) == ("dynamodb", "us-east-1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_prices(Tenant(id="acme", limits=QuotaLimits(dollars_per_month=5)))


def test_a_shell_that_evaluates_the_output_can_set_budgets_in_dollars(
    choosy: Synthesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add_budget_with(_evaluated(choosy), monkeypatch)


def test_without_a_price_it_is_told_which_setting_has_it(
    staging: Synthesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandFailed, match=f"the price of {_PROFILE_ID}, .*inference.price"):
        _add_budget_with(_evaluated(staging), monkeypatch)
