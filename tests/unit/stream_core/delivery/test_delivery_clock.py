from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock
from tests.unit.hand_turned_clock import HandTurnedClock


class Alarm:
    """Remembers when it was called."""

    def __init__(self, clock: HandTurnedClock) -> None:
        self._clock = clock
        self.at: list[float] = []

    def on_due(self, slot: int) -> None:
        assert slot == self._clock.delivery.position
        self.at.append(self._clock.now)


class Asking:
    """Puts an alarm on the clock when it is called, so many seconds into the slot."""

    def __init__(
        self, clock: HandTurnedClock, alarm: Alarm, seconds: float, into_slot: float
    ) -> None:
        self._clock, self._alarm, self._seconds, self._into_slot = clock, alarm, seconds, into_slot
        self.asked_at = 0.0

    def on_due(self, _slot: int) -> None:
        self._clock.now += self._into_slot
        self.asked_at = self._clock.now
        self._clock.delivery.put_after(self._alarm, self._seconds)


SECONDS = st.one_of(st.floats(0, 3), st.integers(0, 300).map(lambda slots: slots * SLOT_SECONDS))


@given(SECONDS, st.floats(0, 0.5))
def test_an_entry_between_turns_is_called_once_and_never_early(
    seconds: float, start: float
) -> None:
    clock = HandTurnedClock()
    clock.turn(start)
    alarm = Alarm(clock)
    asked_at = clock.now
    clock.delivery.put_after(alarm, seconds)
    clock.turn(seconds + 5 * SLOT_SECONDS)
    assert len(alarm.at) == 1
    assert asked_at + seconds <= alarm.at[0] + 1e-9


@given(SECONDS, st.floats(0, SLOT_SECONDS * 0.9))
def test_an_entry_put_during_a_turn_is_called_once_and_never_early(
    seconds: float, into_slot: float
) -> None:
    clock = HandTurnedClock()
    alarm = Alarm(clock)
    asking = Asking(clock, alarm, seconds, into_slot)
    clock.delivery.put(asking, 3)
    clock.turn(seconds + 0.1)
    assert len(alarm.at) == 1
    assert asking.asked_at + seconds <= alarm.at[0] + 1e-9


@given(SECONDS, st.floats(0, 0.6))
def test_an_entry_put_while_the_clock_is_late_is_never_called_early(
    seconds: float, late: float
) -> None:
    clock = HandTurnedClock()
    alarm = Alarm(clock)
    asking = Asking(clock, alarm, seconds, 0.0)
    clock.delivery.put(asking, 3)
    clock.turn(0.03)
    clock.now += late
    clock.turn_late()
    clock.turn(seconds + 1.0)
    assert len(alarm.at) == 1
    assert asking.asked_at + seconds <= alarm.at[0] + 1e-9


@given(st.floats(0.001, 5))
def test_an_entry_is_called_soon_after_its_time(seconds: float) -> None:
    clock = HandTurnedClock()
    alarm = Alarm(clock)
    clock.delivery.put_after(alarm, seconds)
    clock.turn(seconds + 2 * SLOT_SECONDS + 0.001)
    assert len(alarm.at) == 1


@given(st.floats(0, 1e7), st.lists(st.floats(0, 0.1), max_size=50))
def test_no_slot_is_reached_before_its_time_whatever_the_epoch(
    start: float, steps: list[float]
) -> None:
    clock = DeliveryClock(start, Limits())
    now = start
    for step in steps:
        now += step
        target = clock.begin_turn(now)
        assert start + target * SLOT_SECONDS <= now + 1e-6
        clock.turn(target, 1)
        clock.end_turn(now)
        assert clock.next_turn_at() > now - 1e-6


def test_after_a_suspension_the_lost_time_is_given_up_and_nothing_happens_in_a_rush() -> None:
    clock = HandTurnedClock()
    clock.turn(1.0)
    position = clock.delivery.position
    clock.now += 3600.0
    clock.turn_late()
    assert clock.delivery.position - position <= 27, "a quarter of a second at most"
    assert 0 <= clock.delivery.next_turn_at() - clock.now <= SLOT_SECONDS + 1e-6
    position = clock.delivery.position
    clock.turn(1.0)
    assert abs(clock.delivery.position - position - 100) <= 1


def test_a_short_delay_is_caught_up() -> None:
    clock = HandTurnedClock()
    clock.turn(1.0)
    clock.now += 0.2
    clock.turn_late()
    assert abs(clock.delivery.next_turn_at() - clock.now) <= SLOT_SECONDS


# -- the interval ----------------------------------------------------------------------------------


def test_the_interval_stays_at_its_shortest_while_the_clock_is_in_time() -> None:
    clock = HandTurnedClock()
    for _ in range(50):
        clock.turn(0.1)
        assert clock.delivery.intervals.slots == 0
        assert clock.delivery.interval == pytest.approx(0.05)
    assert clock.delivery.load == pytest.approx(0.0, abs=0.01)


def never_wait(clock: HandTurnedClock, seconds: float) -> list[float]:
    """For so long, each turn begins when the one before it ends; the intervals seen."""
    delivery, seen = clock.delivery, [clock.delivery.interval]
    until = clock.now + seconds
    while clock.now < until:
        delivery.turn(delivery.begin_turn(clock.now), 1)
        clock.now += 0.015
        delivery.end_turn(clock.now)
        seen.append(delivery.interval)
    return seen


def test_while_there_is_no_time_to_wait_it_goes_from_50_ms_to_200_ms_step_by_step_and_back() -> (
    None
):
    clock = HandTurnedClock()
    longer = never_wait(clock, 5.0)
    assert [longer[0], longer[-1]] == pytest.approx([0.05, 0.2])
    assert longer == sorted(longer)
    assert len(set(longer)) > 4, "in steps"
    clock.turn(1.5)
    assert clock.delivery.interval == pytest.approx(0.05)


def test_one_hiccup_does_not_lengthen_it() -> None:
    clock = HandTurnedClock()
    clock.turn(5.0)
    clock.now += 0.030
    clock.turn_late()
    clock.turn(5.0)
    assert clock.delivery.interval == pytest.approx(0.05)


def test_a_suspension_says_nothing_of_the_load() -> None:
    clock = HandTurnedClock()
    clock.turn(1.0)
    clock.now += 3600.0
    clock.turn_late()
    clock.turn(0.5)
    assert clock.delivery.interval == pytest.approx(0.05)


@pytest.mark.parametrize(("shortest_ms", "longest_ms"), [(50, 50), (200, 200)])
def test_without_room_to_lengthen_it_is_fixed(shortest_ms: int, longest_ms: int) -> None:
    clock = HandTurnedClock(shortest_ms, longest_ms)
    seen = never_wait(clock, 3.0)
    assert (min(seen), max(seen)) == pytest.approx((shortest_ms / 1000, shortest_ms / 1000))


@pytest.mark.parametrize("shortest_ms", [10, 15, 25, 33, 50, 99, 1000])
def test_it_is_never_shorter_than_the_batch_window(shortest_ms: int) -> None:
    limits = Limits(batch_window_ms=shortest_ms, batch_window_max_ms=max(200, shortest_ms))
    assert DeliveryClock(0.0, limits).interval >= shortest_ms / 1000 - 1e-9


# -- where streams stand ---------------------------------------------------------------------------


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 200))
def test_streams_that_change_their_interval_at_once_are_spread_over_the_slots_between(
    earlier: int, interval: int, streams: int
) -> None:
    clock = DeliveryClock(0.0, Limits())
    taken = Counter(clock.spread(earlier, interval) - clock.position for _ in range(streams))
    first = min(max(earlier, 1), interval)
    assert set(taken) <= set(range(first, interval + 1))
    places = interval - first + 1
    assert max(taken.values()) - (min(taken.values()) if len(taken) == places else 0) <= 1
