"""Settings by `-c` and by cdk.context.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenflow.infra.settings.context import settings_from_context
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import UnknownEnvironmentError, environment
from evenflow.infra.settings.regions import US_EAST_1
from evenflow.infra.settings.setting_paths import WrongSettingError

_PAGER = {"alarms.page_email": "on-call@example.com"}


def _value(settings: EnvironmentSettings, path: str) -> Any:
    """What a setting is, as JSON has it."""
    value: Any = settings.model_dump(mode="json")
    for name in path.split("."):
        value = value[name]
    return value


def test_without_any_it_is_dev() -> None:
    assert settings_from_context({}) == environment("dev")


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("alarms.page_email", "on-call@example.com", "on-call@example.com"),
        ("allowed_origins", "https://a.example.com", ["https://a.example.com"]),
        (
            *("allowed_origins", "https://a.example.com,https://b.example.com"),
            ["https://a.example.com", "https://b.example.com"],
        ),
        ("open_tenant", "false", False),
        ("owner", "123", "123"),
        ("handler.cpu", "512", 512),
        ("handler.surge_load", "[[20, 1], [40, 3]]", [[20, 1], [40, 3]]),
        ("limits.drain_seconds", "100", 100.0),
        ("edge.firewall.requests", "20000", 20_000),
        ("workers.tasks_min", "3", 3),
        ("canary", "{}", environment("prod").canary.model_dump(mode="json")),  # type: ignore[union-attr]
        ("inference.bedrock.cache_ttl", "5m", "5m"),
    ],
)
def test_a_setting_is_read_as_its_kind_wants_it(path: str, text: str, value: object) -> None:
    assert _value(settings_from_context({path: text}), path) == value


def test_a_group_is_switched_off() -> None:
    assert (
        settings_from_context({"env": "prod", **_PAGER, "edge.firewall": "null"}).edge.firewall
        is None
    )


def test_a_domain_is_given_whole_or_in_parts() -> None:
    zone = {"zone_id": "Z0123456789ABCDEFGHIJ", "name": "example.com"}
    whole = {"edge.hosted_zone": '{"zone_id": "Z0123456789ABCDEFGHIJ", "name": "example.com"}'}
    parts = {f"edge.hosted_zone.{name}": value for name, value in zone.items()}
    named = {"edge.domain_name": "chat.example.com"}
    assert (
        settings_from_context({**whole, **named})
        == settings_from_context({**named, **parts})
        == settings_from_context(
            {"dev": {"edge": {"domain_name": "chat.example.com", "hosted_zone": zone}}}
        )
    )


def test_an_environment_has_settings_of_its_own_and_the_command_line_goes_before() -> None:
    context = {
        "owner": "the-team",
        "prod": {**_PAGER, "handler": {"tasks_min": 4}},
        "staging": {"handler.tasks_min": 2},
    }
    prod = settings_from_context({"env": "prod", **context})
    assert (prod.owner, prod.handler.tasks_min) == ("the-team", 4)
    assert prod.alarms.page_email == "on-call@example.com"
    assert (
        settings_from_context(
            {"env": "prod", **context, "handler.tasks_min": "5"}
        ).handler.tasks_min
        == 5
    )
    assert settings_from_context(context) == settings_from_context({"owner": "the-team"})


def test_an_environments_own_setting_goes_before_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file: dict[str, object] = {"owner": "all", "staging": {**_PAGER, "owner": "its-own"}}
    (tmp_path / "cdk.context.json").write_text(json.dumps(file), "utf-8")
    monkeypatch.chdir(tmp_path)
    staging = {"env": "staging", **file}
    assert settings_from_context(staging).owner == "its-own"
    assert settings_from_context({**staging, "owner": "by-command"}).owner == "by-command"
    assert settings_from_context({"env": "dev", **file}).owner == "all"


def test_what_is_cdks_is_left_to_it() -> None:
    keys_of_cdk = {
        "@aws-cdk/core:checkSecretUsage": True,
        "aws:cdk:bundling-stacks": ["**"],
        "availability-zones:account=1:region=us-east-1": ["us-east-1a"],
        "cli-telemetry": False,
    }
    assert settings_from_context(keys_of_cdk) == environment("dev")


def test_a_region_may_be_described() -> None:
    region = {**US_EAST_1.model_dump(mode="json"), "name": "eu-north-1", "geography": "eu"}
    region["model_regions"] = ["eu-north-1"]
    settings = settings_from_context({"dev": {"region": region}})
    assert settings.region.name == "eu-north-1"
    assert settings.inference.bedrock.inference_profile.startswith("eu.")
    assert settings.inference.bedrock.regions == ("eu-north-1",)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"page_email": "a@b.c"}, "no setting 'page_email'; did you mean alarms.page_email?"),
        ({"alarm.page_email": "a@b.c"}, "did you mean alarms.page_email?"),
        ({"edge.domain": "a.b"}, "did you mean edge.domain_name?"),
        ({"tracing.shares": "1"}, "did you mean tracing.share?"),
        ({"owner.name": "x"}, "no setting 'owner.name'"),
        ({"quux": "1"}, "no setting 'quux'; infra/settings/environment_settings.py has them all"),
        ({"environment": "prod"}, "no setting 'environment'; did you mean env?"),
        ({"name": "prod"}, "no setting 'name'; did you mean env?"),
        ({"envv": "prod"}, "no setting 'envv'; did you mean env?"),
        ({"open-tenant": "false"}, "no setting 'open-tenant'; did you mean open_tenant?"),
        ({"alarms.page-email": "a@b.c"}, "did you mean alarms.page_email"),
        ({"production": {}}, "'production' is no environment; .* one of dev, staging, prod"),
        ({"dev": "x"}, "dev must be an object of settings, in cdk.context.json"),
        ({"owner": ""}, "owner is empty: give it a value, or leave it out"),
        (
            {"inference.kind": "bedrok"},
            "dev: inference.kind = 'bedrok': Input should be 'demo', 'bedrock' or 'sagemaker'",
        ),
        ({"handler.cpu": "700"}, "handler.cpu = '700': Input should be 256, 512, 1024 or 2048"),
        ({"edge.domain_name": "a.b"}, "dev: edge: domain_name must be set together with hosted_"),
        ({"alarms.page_email": "a@b.c,owner=me"}, "dev: alarms.page_email = 'a@b.c,owner=me'"),
        ({"tracing.share": "0.5"}, "dev: tracing.collector_image: Field required"),
        (
            {"inference.bedrock.inference_profile": "us.anthropic.claude-x"},
            "foundation_model is set beside it",
        ),
        ({"dev": {"alarms": {"email": "a@b.c"}}}, "no setting 'alarms.email'; did you mean alarms"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_right(
    context: dict[str, object], message: str
) -> None:
    with pytest.raises(WrongSettingError, match=message):
        settings_from_context(context)


def test_a_misspelt_environment_says_which_there_are() -> None:
    with pytest.raises(UnknownEnvironmentError, match=r"'prd'; choose one of dev, staging, prod"):
        settings_from_context({"env": "prd"})


@pytest.mark.parametrize("kind", ["bedrock", "sagemaker"])
def test_an_environment_is_not_opened_to_all_with_a_model_that_costs_unless_it_is_meant(
    kind: str,
) -> None:
    with pytest.raises(WrongSettingError, match=f"{kind} costs money: set open_tenant=false, or"):
        settings_from_context({"inference.kind": kind})
    for meant in ("true", "false"):
        settings = settings_from_context({"inference.kind": kind, "open_tenant": meant})
        assert settings.open_tenant == (meant == "true")
