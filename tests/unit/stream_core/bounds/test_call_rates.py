"""What calls may cost in a second."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.call_rates import (
    LONGEST_WAIT_SECONDS,
    CallRates,
    RateKeys,
    cost_of_answer,
)

_LIMITS = Limits(calls_per_second=10, calls_per_sender_per_second=40, streams_per_session=2)
_READER = RateKeys("session")


def test_a_burst_passes_at_once_then_calls_wait_and_then_they_are_refused() -> None:
    rates = CallRates(_LIMITS)
    assert [rates.charge(_READER, 1, 0.0) for _ in range(20)] == [0.0] * 20
    waits = [rates.charge(_READER, 1, 0.0) for _ in range(20)]
    assert waits == pytest.approx([(number + 1) / 10 for number in range(20)])
    with pytest.raises(RateLimited) as refused:
        rates.charge(_READER, 1, 0.0)
    assert refused.value.retry_after_ms == 2_100
    assert rates.charge(_READER, 1, 0.2) == pytest.approx(1.9), "who was refused was not charged"


def test_a_call_that_costs_more_than_the_burst_passes_and_later_ones_wait_for_it() -> None:
    rates = CallRates(_LIMITS)
    assert rates.charge(_READER, 60, 0.0) == 0.0
    with pytest.raises(RateLimited):
        rates.charge(_READER, 1, 0.0)
    assert rates.charge(_READER, 1, 4.1) == 0.0


def test_what_a_call_has_cost_besides_is_waited_for_by_the_next_one() -> None:
    rates = CallRates(_LIMITS)
    rates.charge(_READER, 1, 0.0)
    rates.add(_READER, cost_of_answer(28 * 16_384), 0.0)
    assert rates.charge(_READER, 1, 0.0) == pytest.approx(1.0)


def test_sessions_do_not_wait_for_each_other_and_their_sender_is_counted_over_all() -> None:
    rates = CallRates(_LIMITS)
    for number in range(8):
        assert rates.charge(RateKeys(f"session {number}", "address"), 10, 0.0) == 0.0
    assert rates.charge(RateKeys("another", "address"), 1, 0.0) == pytest.approx(1 / 40)
    assert rates.charge(RateKeys("another", "another address"), 1, 0.0) == 0.0


def test_other_tasks_have_no_rate() -> None:
    rates = CallRates(_LIMITS)
    assert [rates.charge(RateKeys(), 1_000, 0.0) for _ in range(100)] == [0.0] * 100


def test_the_rate_is_kept_over_a_long_time() -> None:
    rates, now, made = CallRates(_LIMITS), 0.0, 0
    while now < 60.0:
        try:
            now += rates.charge(_READER, 1, now)
            made += 1
        except RateLimited:
            now += LONGEST_WAIT_SECONDS
    assert 590 <= made <= 600 + 20 + 20


def test_so_many_streams_of_a_session_are_open_at_once_and_not_more() -> None:
    rates = CallRates(_LIMITS)
    with rates.streaming(_READER), rates.streaming(RateKeys("another")):
        with (
            rates.streaming(_READER),
            pytest.raises(RateLimited) as refused,
            rates.streaming(_READER),
        ):
            pass
        assert refused.value.code == "session_streams"
        with rates.streaming(_READER):
            pass
    assert not rates._streams, "nothing stays of who has gone"


def test_who_is_no_session_s_has_as_many_streams_as_the_node_takes() -> None:
    rates = CallRates(_LIMITS)
    key = RateKeys(account=("acme", "key"))
    with rates.streaming(key), rates.streaming(key), rates.streaming(key):
        pass


def test_callers_without_end_take_no_memory_without_end() -> None:
    rates = CallRates(_LIMITS)
    for number in range(10_000):
        rates.charge(RateKeys(number), 1, 0.0)
    assert len(rates._sessions) == 8_192
