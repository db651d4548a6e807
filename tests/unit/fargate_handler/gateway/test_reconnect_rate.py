from __future__ import annotations

import pytest

from fargate_handler.gateway import reconnect_rate as module
from fargate_handler.gateway.reconnect_rate import ReconnectRate
from stream_core.policy.channel import Channel
from stream_core.policy.limits import Limits
from stream_core.policy.session_token import SessionClaims
from stream_core.protocol.errors import Overloaded

WALL = 1_800_000_000.0
NEW = module._NEW_SECONDS


def claims(age: float) -> SessionClaims:
    return SessionClaims(
        Channel("t", "demo", "s"), expires_at=int(WALL) + 3_600, issued_at=int(WALL - age)
    )


def admitted(rate: ReconnectRate, clients: int, now: float, age: float = 1_000.0) -> int:
    """How many of so many that come at once are let in."""
    count = 0
    for _ in range(clients):
        try:
            rate.check(claims(age), WALL, now)
        except Overloaded:
            continue
        count += 1
    return count


def test_returning_clients_come_in_at_the_rate_and_twice_as_many_at_once() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=10), 0.0)
    assert admitted(rate, 100, now=0.0) == 20
    assert admitted(rate, 100, now=0.5) == 5
    assert admitted(rate, 100, now=1.5) == 10
    assert admitted(rate, 100, now=100.0) == 20


def test_who_is_refused_is_told_when_to_come_again_and_not_all_at_the_same_time() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=1), 0.0)
    admitted(rate, 2, now=0.0)
    waits = set()
    for _ in range(50):
        with pytest.raises(Overloaded) as refused:
            rate.check(claims(1_000.0), WALL, 0.0)
        assert (refused.value.status, refused.value.code) == (503, "reconnect_storm")
        waits.add(refused.value.to_object()["retry_after_ms"])
    assert len(waits) > 10
    assert min(waits) >= 500
    assert max(waits) <= 3_000


def test_a_storm_of_those_who_return_does_not_keep_new_ones_out() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=1), 0.0)
    assert admitted(rate, 100, now=0.0) == 2
    assert admitted(rate, 1_000, now=0.0, age=0.0) == 1_000
    assert admitted(rate, 10, now=0.0, age=NEW) == 10
    assert admitted(rate, 10, now=0.0, age=NEW + 1) == 0


def test_new_ones_use_up_nothing() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=10), 0.0)
    admitted(rate, 1_000, now=0.0, age=0.0)
    assert admitted(rate, 100, now=0.0) == 20


def test_a_token_of_a_machine_whose_clock_is_ahead_is_new() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=1), 0.0)
    assert admitted(rate, 10, now=0.0, age=-5.0) == 10
