"""The environments' settings contradict neither themselves nor the contract."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import ENVIRONMENTS, UnknownEnvironmentError, environment
from evenflow.infra.settings.regions import US_EAST_1
from evenflow.infra.settings.setting_paths import WrongSettingError
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import ACTIVE_CONNECTIONS


def _changed(path: str, value: object) -> EnvironmentSettings:
    data = environment("dev").model_dump()
    group, _, field = path.partition(".")
    data[group] = {**data[group], field: value} if field else value
    return EnvironmentSettings.model_validate(data)


def test_an_unknown_environment_is_told_which_there_are() -> None:
    with pytest.raises(
        UnknownEnvironmentError,
        match=r"no environment 'production'; choose one of dev, staging, prod",
    ):
        environment("production")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_settings_are_frozen(name: str) -> None:
    settings: Any = environment(name)
    with pytest.raises(ValidationError, match="frozen"):
        settings.handler.cpu = 2048


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("handler.idle_timeout_seconds", 25, "cuts sockets between heartbeats"),
        ("handler.idle_timeout_seconds", 75, "over connections that a task closes"),
        ("handler.deregistration_delay_seconds", 115, "sockets are cut while a task still drains"),
        ("handler.stop_timeout_seconds", 114, "ECS kills a task that still drains"),
        ("handler.deployment_percent", 150, "no room for one more than 1 tasks"),
        ("functions.poll_response_timeout_seconds", 25, "polls are cut off"),
        ("limits", Limits(drain_seconds=105), "polls are cut off"),
        (
            "limits",
            Limits(poll_timeout_max_ms=25_000, drain_seconds=105, sse_heartbeat_seconds=90),
            "event streams off",
        ),
        ("handler.load_percent", 51, "less than or equal to 50"),
        ("handler.tasks_max", 0, "not be below tasks_min"),
        ("edge.domain_name", "chat.example.com", "together with hosted_zone or certificate_arn"),
        ("functions.throttle_rate", 20_000, "what all HTTP APIs of an account get in us-east-1"),
        ("functions.session_rate", 10, "one address keeps all others from opening sessions"),
        ("allowed_origins", ("app.example.com",), "must be origins as browsers write them"),
        ("allowed_origins", ("https://app.example.com", "*"), "alone"),
        ("oidc", {"issuer": "http://login.example.com", "audience": "a"}, "must be an https"),
        ("oidc", {"issuer": "https://login.example.com"}, "oidc.audience"),
        ("oidc", {"issuer": "https://login.example.com", "audience": "a"}, "open_tenant must be"),
        (
            "agents",
            {"a": {"suggestions": ["x" * 200] * 8}},
            "more than 1000 bytes of names and suggestions",
        ),
        ("agents", {"a b": {}}, "should match pattern"),
        ("tags", {"Ärger": "1"}, "is no tag: a key has 1 to 128"),
        ("tags", {"note": "a,b"}, "is no tag"),
        ("tags", {"": "1"}, "is no tag"),
        ("tags", {"AWS:note": "1"}, "begins with aws:"),
        ("tags", {"Team": "1", "team": "2"}, "two tags have one name"),
        ("tags", {f"t{n}": "" for n in range(41)}, "at most 40 tags"),
        ("permissions_boundary", "arn:aws:iam::1:policy/x", "should match pattern"),
        ("permissions_boundary", "a policy", "should match pattern"),
        (
            "handler.memory_mib",
            512,
            r"the limits need 1008 MiB and a handler has 512: lower connections_per_node",
        ),
        (
            "allowed_origins",
            tuple(f"https://app{n}.example.com" for n in range(100)),
            "more than 2000 characters",
        ),
    ],
)
def test_what_would_cut_readers_off_is_refused(path: str, value: object, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        _changed(path, value)


def test_polls_of_one_address_that_could_take_all_executions_are_refused() -> None:
    changes = {"edge.firewall.polls": 1_500}
    with pytest.raises(WrongSettingError, match="one address keeps all others from polling"):
        environment("prod", **changes)
    reserved = {"functions.reserved_concurrency.poll_response": 1_000}
    assert environment("prod", **changes, **reserved).edge.firewall is not None


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ({"idle_timeout_seconds": 310}, "paused answers are cut off"),
        ({"stop_timeout_seconds": 114}, "kills a worker that answers"),
        ({"deployment_percent": 149}, "no room for one more than 2 tasks"),
        ({"tasks_max": 1}, "not be below tasks_min"),
    ],
)
def test_workers_that_would_cut_answers_off_are_refused(workers: dict[str, int], why: str) -> None:
    assert _changed("workers", {}).workers is not None
    with pytest.raises(ValidationError, match=why):
        _changed("workers", workers)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_at_the_target_and_in_the_last_step_there_are_fewer_connections_than_alarm(
    name: str,
) -> None:
    assert ACTIVE_CONNECTIONS.alarm is not None
    handler = environment(name).handler
    highest = handler.load_percent + max(above for above, _ in handler.surge_load)
    connections = environment(name).limits.connections_per_node * highest / 100
    assert connections < ACTIVE_CONNECTIONS.alarm.above


def test_prod_keeps_its_data_and_dev_does_not() -> None:
    assert environment("prod").data.keep
    assert not environment("dev").data.keep


def test_a_zone_must_have_a_name() -> None:
    region = US_EAST_1.model_copy(update={"zone_ids": US_EAST_1.zone_ids[:2]})
    with pytest.raises(WrongSettingError, match="us-east-1 names 2 zones, fewer than 3"):
        environment("prod", region=region)


def test_only_dev_is_open_to_anybody() -> None:
    assert [name for name in ENVIRONMENTS if environment(name).open_tenant] == ["dev"]
