from __future__ import annotations

import pytest
from pydantic import ValidationError

from evenflow.stream_core.base.limits import Limits

DESIGN = {
    "connections_per_node": 12_000,
    "batch_window_ms": 50,
    "batch_window_max_ms": 200,
    "batch_tokens": 10,
    "write_buffer_bytes": 64 * 1024,
    "read_buffer_bytes": 128 * 1024,
    "lag_notice_deltas": 64,
    "lag_notice_seconds": 10,
    "lag_close_seconds": 30,
    "lag_close_bytes": 256 * 1024,
    "heartbeat_seconds": 25,
    "pong_timeout_seconds": 60,
    "message_bytes": 64 * 1024,
    "messages_in_flight_per_session": 4,
    "messages_in_flight_per_tenant": None,
    "queue_depth": 1_000,
    "generations_per_node": 1_000,
    "queue_deadline_seconds": 60,
    "model_first_sign_seconds": 60,
    "model_silence_seconds": 60,
    "model_deadline_seconds": 1800,
    "model_retries": 1,
    "response_ttl_seconds": 86_400,
    "presence_listeners_per_response": 100,
    "session_token_ttl_seconds": 3_600,
    "grace_seconds": None,
    "pause_window_bytes": 16 * 1024,
    "sse_heartbeat_seconds": 15,
    "poll_timeout_max_ms": 30_000,
    "drain_seconds": 110,
}


def test_the_defaults_are_those_of_the_contract() -> None:
    limits = Limits()
    assert {name: getattr(limits, name) for name in DESIGN} == DESIGN


def test_each_limit_has_bounds_and_says_what_happens_when_it_is_reached() -> None:
    for name, field in Limits.model_fields.items():
        assert field.description, name
        lowest = next(rule.ge for rule in field.metadata if hasattr(rule, "ge"))
        highest = next(rule.le for rule in field.metadata if hasattr(rule, "le"))
        assert field.default is None or lowest <= field.default <= highest, name
        for outside in (lowest - 1, highest + 1):
            with pytest.raises(ValidationError, match=name):
                Limits(**{name: outside})


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("batch_window_ms", "batch_window_max_ms"),
        ("lag_notice_seconds", "lag_close_seconds"),
        ("model_first_sign_seconds", "model_deadline_seconds"),
        ("model_silence_seconds", "model_deadline_seconds"),
    ],
)
def test_limits_that_contradict_each_other_are_refused_by_name(smaller: str, larger: str) -> None:
    with pytest.raises(ValidationError, match=f"{smaller} must .*{larger}"):
        Limits.model_validate({smaller: 500, larger: 400})


@pytest.mark.parametrize(
    ("heartbeat", "pong_timeout", "allowed"), [(40, 60, True), (41, 60, False), (60, 60, False)]
)
def test_a_pong_has_time_to_come(heartbeat: float, pong_timeout: float, allowed: bool) -> None:
    values = {"heartbeat_seconds": heartbeat, "pong_timeout_seconds": pong_timeout}
    if allowed:
        assert Limits.model_validate(values).heartbeat_seconds == heartbeat
    else:
        with pytest.raises(
            ValidationError, match=r"pong_timeout_seconds must .* heartbeat_seconds"
        ):
            Limits.model_validate(values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"generations_per_node": 10, "queue_depth": 5, "messages_in_flight_per_tenant": 16},
            r"per_tenant must .*\(15\)",
        ),
        (
            {"messages_in_flight_per_tenant": 3, "messages_in_flight_per_session": 4},
            r"per_session must .*tenant \(3\)",
        ),
        (
            {"generations_per_node": 1, "queue_depth": 1, "messages_in_flight_per_session": 3},
            r"per_session must .*\(2\)",
        ),
    ],
)
def test_a_cap_that_is_never_reached_is_refused(values: dict[str, int], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Limits.model_validate(values)
    assert Limits(generations_per_node=10, queue_depth=5, messages_in_flight_per_tenant=15)


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Limits(), "queue_depth", 5)  # noqa: B010 - mypy knows that it can't be set


@pytest.mark.parametrize(("grace", "seconds"), [(None, 10), (3_600, 10), (30, 10), (6, 2), (0, 0)])
def test_signs_of_readers_come_three_times_a_grace_and_every_ten_seconds_at_least(
    grace: float | None, seconds: float
) -> None:
    assert Limits(grace_seconds=grace).reader_sign_seconds == seconds
