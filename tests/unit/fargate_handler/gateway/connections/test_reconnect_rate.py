from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from evenflow.fargate_handler.gateway.connections import reconnect_rate as module
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.base.limits import Limits

WALL = 1_800_000_000.0
NEW = module._NEW_SECONDS


def claims(age: float, session: str = "s") -> SessionClaims:
    return SessionClaims(
        Channel("t", "demo", session), expires_at=int(WALL) + 3_600, issued_at=int(WALL - age)
    )


_NUMBERS = count()


def admitted(
    rate: ReconnectRate,
    clients: int,
    now: float,
    age: float = 1_000.0,
    address: str | None = None,
    session: str | None = None,
) -> int:
    """How many of so many that come at once are let in. Each is somebody else, by default."""
    let_in = 0
    for _ in range(clients):
        number = next(_NUMBERS)
        try:
            rate.check(claims(age, session or f"s{number}"), address or f"a{number}", WALL, now)
        except Overloaded:
            continue
        let_in += 1
    return let_in


def test_returning_clients_come_in_at_the_rate_and_twice_as_many_at_once() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=10), 0.0)
    assert admitted(rate, 100, now=0.0) == 20
    assert admitted(rate, 100, now=0.5) == 5
    assert admitted(rate, 100, now=1.5) == 10
    assert admitted(rate, 100, now=100.0) == 20


def test_each_rejected_client_finds_room_at_the_time_that_it_was_given() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=10), 0.0)
    admitted(rate, 20, now=0.0)
    waits = list[float]()
    for number in range(300):
        with pytest.raises(Overloaded) as refused:
            rate.check(claims(1_000.0, f"r{number}"), f"r{number}", WALL, 0.0)
        assert (refused.value.status, refused.value.code) == (503, "reconnect_storm")
        waits.append(refused.value.to_object()["retry_after_ms"] / 1000)
    assert len(set(waits)) == 300, "they don't return together"
    for number, wait in enumerate(waits):
        rate.check(claims(1_000.0, f"r{number}"), f"r{number}", WALL, wait)


def test_clients_that_ignore_their_times_do_not_postpone_others_without_end() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=10), 0.0)
    admitted(rate, 10_000, now=0.0)
    with pytest.raises(Overloaded) as refused:
        rate.check(claims(1_000.0), "a", WALL, 0.0)
    assert refused.value.to_object()["retry_after_ms"] == 60_001


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


def test_one_address_leaves_a_part_of_the_burst_to_others() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=100), 0.0)
    assert admitted(rate, 1_000, now=0.0, address="loud") == 150
    assert admitted(rate, 40, now=0.0) == 40


def test_one_address_alone_comes_back_at_the_whole_rate() -> None:
    """Everybody may be behind one address."""
    rate = ReconnectRate(Limits(returning_connections_per_second=100), 0.0)
    admitted(rate, 1_000, now=0.0, address="all")
    for second in range(1, 10):
        assert admitted(rate, 1_000, now=float(second), address="all") == 100


def test_while_one_address_tries_for_ever_the_first_try_of_others_succeeds() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=100), 0.0)
    for tenth in range(100):
        admitted(rate, 300, now=tenth / 10, address="loud")
        assert admitted(rate, 5, now=tenth / 10) == 5


def test_a_session_that_comes_again_and_again_leaves_half_whatever_its_addresses() -> None:
    limits = Limits(returning_connections_per_second=100, connections_per_session=8)
    rate = ReconnectRate(limits, 0.0)
    assert admitted(rate, 1_000, now=0.0, session="loud") == 100
    assert admitted(rate, 100, now=0.0) == 100


def test_a_new_token_of_a_session_that_was_just_here_is_no_way_round() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=100), 0.0)
    assert admitted(rate, 1_000, now=0.0, age=0.0, session="loud", address="loud") == 101


def test_the_readers_with_tickets_are_not_one_session() -> None:
    rate = ReconnectRate(Limits(returning_connections_per_second=100), 0.0)
    ticket = replace(claims(1_000.0), only_for="rsp_1")
    for number in range(200):
        rate.check(ticket, f"a{number}", WALL, 0.0)
