"""The delivery clock, its driver and streams on a simulated core."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from evenflow.stream_core.base.channel import COMPLETION
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from tests.unit.simulated_core import SimulatedCore, Streams

STREAMS = 500
SHORTEST, LONGEST = 0.05, 0.2


def cost(load: float, interval: float = SHORTEST) -> float:
    """What one delivery must take, that all streams together are this load at the interval."""
    return load * interval / STREAMS


def slots_between(core: SimulatedCore, begin: float, end: float) -> set[int]:
    """The intervals in a stretch of time, in slots."""
    return {
        round(core.interval_at(begin + step * 0.01) / SLOT_SECONDS)
        for step in range(round((end - begin) * 100))
    }


@pytest.mark.parametrize("load", [0.3, 0.6, 0.77])
def test_below_80_percent_of_a_core_the_interval_is_the_shortest(load: float) -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(load))
    core.run(5.0)
    assert slots_between(core, 1002.0, core.now) == {5}
    assert core.clock.load == pytest.approx(load, abs=0.1)


@pytest.mark.parametrize("load", [1.2, 2.0, 3.0])
def test_a_step_to_overload_lengthens_it_evenly_to_what_is_needed(load: float) -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(load))
    core.run(10.0)
    lengths = [interval for _, interval in core.intervals]
    settled = slots_between(core, core.now - 4.0, core.now)
    assert max(settled) - min(settled) <= 1
    assert load * 5 <= max(settled) <= 1.3 * load * 5 + 1
    assert all(after < 2 * before for before, after in itertools.pairwise(lengths))


def test_after_a_burst_it_is_back_within_two_seconds() -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(0.5))
    core.run(2.0)
    core.waiting = 1.0  # everybody asks something
    while core.waiting > 0.01:
        core.run(0.01)
    ended = core.now
    core.run(4.0)
    assert slots_between(core, ended + 2.0, core.now) == {5}


def test_models_slower_than_the_interval_do_not_keep_it_long_after_a_burst() -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(0.75, interval=0.1), gap=0.1)
    core.run(1.0)
    core.waiting = 1.0
    while core.waiting > 0.01:
        core.run(0.01)
    ended = core.now
    assert core.clock.interval > SHORTEST
    core.run(5.0)
    assert slots_between(core, ended + 2.0, core.now) == {5}


def test_it_follows_a_slow_drift_up_and_down() -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(0.6))
    seen = []
    for percent in (*range(0, 70, 5), *range(70, -1, -5)):
        core.other = percent / 100
        core.run(1.5)
        seen.append(core.clock.interval)
    top = seen.index(max(seen))
    assert seen[0] == seen[-1] == pytest.approx(SHORTEST)
    assert seen[:top] == sorted(seen[:top])
    assert max(seen) <= LONGEST
    assert max(seen) > 0.08


def test_a_neighbour_that_takes_half_of_the_core_is_load() -> None:
    core = SimulatedCore()
    Streams(core, STREAMS, cost(0.7))
    core.run(2.0)
    assert core.clock.interval == pytest.approx(SHORTEST)
    core.stolen = 0.5
    core.run(5.0)
    settled = slots_between(core, core.now - 2.0, core.now)
    assert 7 <= min(settled) <= max(settled) <= 10
    core.stolen = 0.0
    ended = core.now
    core.run(3.0)
    assert slots_between(core, ended + 2.0, core.now) == {5}


def test_streams_that_begin_at_once_are_spread_within_an_interval() -> None:
    core = SimulatedCore()
    core.run(0.2)
    streams = Streams(core, STREAMS, cost(0.6))
    core.run(1.0)
    for interval in (2, 5, 9):
        taken = Counter(slots[interval] % 5 for slots in streams.deliveries)
        assert sorted(taken.values()) == [STREAMS // 5] * 5


def test_of_one_kind_no_stream_has_twice_the_interval_of_another() -> None:
    core = SimulatedCore()
    streams = Streams(core, STREAMS, cost(2.5))
    core.run(4.0)
    core.stolen, core.other = 0.3, 0.2
    core.run(4.0)
    core.stolen, core.other = 0.0, 0.0
    core.run(4.0)
    for begin in range(50, 1100, 25):
        gaps = [
            after - before
            for slots in streams.deliveries
            for before, after in itertools.pairwise(slots[1:])
            if before <= begin < after
        ]
        assert max(gaps) < 2 * min(gaps)


def test_programs_are_given_tokens_as_they_come_until_the_node_is_busy() -> None:
    core = SimulatedCore()
    programs = Streams(core, 50, 0.0, gap=0.02, kind=COMPLETION)
    core.run(2.0)
    assert {len(slots) for slots in programs.deliveries} <= {99, 100, 101}
    core.other = 0.85
    core.run(2.0)
    begun = [len(slots) for slots in programs.deliveries]
    core.run(2.0)
    given = {len(slots) - before for slots, before in zip(programs.deliveries, begun, strict=True)}
    assert max(given) <= 2.0 / SHORTEST + 1
