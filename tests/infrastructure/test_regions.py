"""A region outside the table: its entry is looked up, or set by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from botocore.loaders import create_loader

from evenflow.infra import region_lookup
from evenflow.infra.announce import _warnings
from evenflow.infra.evenflow_service import EvenflowService, service_settings
from evenflow.infra.region_lookup import RegionLookupError, look_up
from evenflow.infra.settings.context import settings_from_context
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.regions import Region, UnknownRegionError, context_key, region_named
from evenflow.infra.settings.setting_paths import WrongSettingError
from tests.infrastructure.account_server import MODEL, AccountServer, account_server
from tests.infrastructure.synthesis import synthesize
from tests.integration.aws_emulator import CREDENTIALS

_ENTRY = {
    "zone_ids": ["sae1-az1", "sae1-az2", "sae1-az3"],
    "cloudfront": "pl-0000000a",
    "s3": "pl-0000000b",
    "dynamodb": "pl-0000000c",
}
_CONTEXT = {context_key("sa-east-1"): _ENTRY}
_LISTS = {
    "com.amazonaws.global.cloudfront.origin-facing": "pl-0000000a",
    "com.amazonaws.sa-east-1.s3": "pl-0000000b",
    "com.amazonaws.sa-east-1.dynamodb": "pl-0000000c",
}
_loader = cache(create_loader)


def _lists(names: dict[str, str]) -> dict[str, Any]:
    items = [
        {"prefixListName": name, "prefixListId": identifier} for name, identifier in names.items()
    ]
    return {"prefixListSet": {"item": items}}


def _zones(*zones: str, state: str = "available") -> dict[str, Any]:
    items = [{"zoneId": zone, "zoneState": state} for zone in zones]
    return {"availabilityZoneInfo": {"item": items}}


def _profile(geography: str, *regions: str) -> dict[str, Any]:
    models = [{"modelArn": f"arn:aws:bedrock:{region}::foundation-model/x"} for region in regions]
    return {"inferenceProfileId": f"{geography}.{MODEL}", "models": models}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[AccountServer]:
    """An account that may use sa-east-1."""
    monkeypatch.setattr("botocore.session.create_loader", _loader)
    answers = {
        "DescribeManagedPrefixLists": _lists(_LISTS),
        "DescribeAvailabilityZones": _zones("sae1-az3", "sae1-az1", "sae1-az2"),
        "ListInferenceProfiles": {"inferenceProfileSummaries": [_profile("global", "")]},
    }
    with account_server(answers) as server:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        yield server


def test_what_is_looked_up_is_what_synthesizes(
    account: AccountServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["region_lookup", "sa-east-1"])
    (tmp_path / "cdk.context.json").write_text('{"other": 1}', "utf-8")
    assert region_lookup.main() == 0
    written = json.loads((tmp_path / "cdk.context.json").read_text("utf-8"))
    assert written == {"other": 1, **_CONTEXT}
    region = region_named("sa-east-1", written)
    assert (region.geography, region.dearer) == ("", None)


def test_a_profile_of_its_geography_is_found(account: AccountServer) -> None:
    profiles = [_profile("global", ""), _profile("sa", "sa-east-1", "sa-west-1")]
    account.answers["ListInferenceProfiles"] = {"inferenceProfileSummaries": profiles}
    region = look_up("sa-east-1")
    assert (region.geography, region.model_regions) == ("sa", ("sa-east-1", "sa-west-1"))
    settings = environment("prod", region=region)
    assert settings.inference.bedrock.inference_profile == f"sa.{MODEL}"


@pytest.mark.parametrize(
    ("operation", "answer", "message"),
    [
        ("DescribeManagedPrefixLists", _lists({}), "has no prefix list com.amazonaws.global"),
        ("DescribeAvailabilityZones", _zones("sae1-az1", "apne1-az3"), "shows this account sae1"),
        ("DescribeAvailabilityZones", _zones("a1-az1", "a1-az2", state="impaired"), "no zones"),
        ("DescribeAvailabilityZones", "AuthFailure", "has opted into the region"),
    ],
)
def test_a_region_that_lacks_something_is_refused(
    account: AccountServer, operation: str, answer: dict[str, Any] | str, message: str
) -> None:
    account.answers[operation] = answer
    with pytest.raises(RegionLookupError, match=message):
        look_up("sa-east-1")


def test_an_environment_is_synthesized_in_it(tmp_path: Path) -> None:
    settings = settings_from_context({"env": "dev", "region": "sa-east-1", **_CONTEXT})
    synthesis = synthesize(settings, tmp_path)
    rules = json.dumps(synthesis.templates["network"])
    assert all(f'"{prefix_list}"' in rules for prefix_list in _LISTS.values())
    subnets = synthesis.of_type("AWS::EC2::Subnet", "network").values()
    zones = {subnet["Properties"]["AvailabilityZoneId"] for subnet in subnets}
    assert zones == {"sae1-az1", "sae1-az2", "sae1-az3"}


def test_its_prices_are_said_to_be_unknown_unless_they_are_given() -> None:
    def notes(**more: float) -> str:
        region = region_named("sa-east-1", {context_key("sa-east-1"): _ENTRY | more})
        return " ".join(_warnings(environment("dev", region=region)))

    assert "how much dearer sa-east-1 is than us-east-1 is not known" in notes()
    assert "sa-east-1 costs about 50% more" in notes(dearer=1.5)


def test_a_service_in_anybodys_app_is_given_it_or_finds_it_in_the_context() -> None:
    region = region_named("sa-east-1", _CONTEXT)
    for context, argument in ((_CONTEXT, None), ({}, region)):
        stack = _stack("sa-east-1", context)
        settings = service_settings(stack, image="registry.example.com/evenflow:1", region=argument)
        EvenflowService(stack, "Chat", settings=settings)
        rules = json.dumps(Template.from_stack(stack).to_json())
        assert all(f'"{prefix_list}"' in rules for prefix_list in _LISTS.values())


def test_a_service_is_not_in_the_region_of_another_entry() -> None:
    stack, region = _stack("us-west-2", {}), region_named("sa-east-1", _CONTEXT)
    with pytest.raises(UnknownRegionError, match="is in us-west-2, and its settings are for sa-"):
        service_settings(stack, region=region)
    with pytest.raises(UnknownRegionError, match="is in us-west-2, and its settings are for sa-"):
        EvenflowService(stack, "Chat", settings=environment("dev", region=region))


def _stack(region: str, context: dict[str, Any]) -> cdk.Stack:
    return cdk.Stack(cdk.App(context=context), "Shop", env=cdk.Environment(region=region))


def test_an_entry_may_be_json_as_the_command_line_gives_it() -> None:
    context = {context_key("sa-east-1"): json.dumps(_ENTRY | {"dearer": 1.5})}
    assert region_named("sa-east-1", context).dearer == 1.5


def test_a_model_needs_a_profile_of_the_geography_or_a_global_one() -> None:
    with pytest.raises(WrongSettingError, match=r"set inference.bedrock to global\.anthropic"):
        environment("prod", region=region_named("sa-east-1", _CONTEXT))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zone_ids": ["sae1-az1"]}, "at least 2 items"),
        ({"cloudfront": "com.amazonaws.global"}, "cloudfront"),
        ({"zones": 3}, "zones"),
    ],
)
def test_a_wrong_entry_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownRegionError, match=message):
        region_named("sa-east-1", {context_key("sa-east-1"): _ENTRY | change})
    with pytest.raises(UnknownRegionError, match="is no entry of a region"):
        region_named("sa-east-1", {context_key("sa-east-1"): "{"})


def test_only_names_of_commercial_regions_are_taken() -> None:
    for name in ("us-gov-west-1", "cn-north", "mars-north-1"):
        with pytest.raises(ValueError, match="name"):
            Region.model_validate({"name": name, **_ENTRY})
