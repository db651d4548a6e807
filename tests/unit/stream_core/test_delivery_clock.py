from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock
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
    clock = DeliveryClock(start, 50, 200)
    now = start
    for step in steps:
        now += step
        target = clock.begin_turn(now)
        assert start + target * SLOT_SECONDS <= now + 1e-6
        clock.turn(target, 1)
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


def test_the_interval_stays_at_its_shortest_while_the_clock_is_in_time() -> None:
    clock = HandTurnedClock()
    for _ in range(50):
        clock.turn(0.1)
        assert clock.delivery.interval_slots == 5
        assert clock.delivery.interval == pytest.approx(0.05)
    assert clock.delivery.lateness < SLOT_SECONDS / 5


def be_late(clock: HandTurnedClock, seconds: float, late: float) -> list[float]:
    """Turn for so long, each turn `late` behind its slot; the intervals seen."""
    seen = [clock.delivery.interval]
    until = clock.now + seconds
    while clock.now < until:
        clock.now = max(clock.now, clock.delivery.next_turn_at() + late)
        clock.turn_late()
        if clock.delivery.interval != seen[-1]:
            seen.append(clock.delivery.interval)
    return seen


def test_under_lateness_the_interval_goes_from_50_ms_to_200_ms_step_by_step_and_no_further() -> (
    None
):
    clock = HandTurnedClock(50, 200)
    seen = be_late(clock, 5.0, late=0.030)
    assert seen[0] == pytest.approx(0.05)
    assert seen[-1] == pytest.approx(0.2)
    assert seen == sorted(seen)
    assert len(seen) > 4, "in steps"
    be_late(clock, 5.0, late=0.200)
    assert clock.delivery.interval == pytest.approx(0.2)


def test_when_the_lateness_is_over_the_interval_returns_slowly() -> None:
    clock = HandTurnedClock(50, 200)
    be_late(clock, 5.0, late=0.030)
    seen = be_late(clock, 60.0, late=0.0001)
    assert seen[-1] == pytest.approx(0.05)
    assert seen == sorted(seen, reverse=True)
    assert all(
        before - after == pytest.approx(SLOT_SECONDS) for before, after in itertools.pairwise(seen)
    )


def test_one_hiccup_does_not_lengthen_the_interval() -> None:
    clock = HandTurnedClock()
    clock.turn(5.0)
    clock.now += 0.030
    clock.turn_late()
    clock.turn(5.0)
    assert clock.delivery.interval_slots == 5


def test_lateness_between_calm_and_late_leaves_the_interval_alone() -> None:
    clock = HandTurnedClock()
    be_late(clock, 1.0, late=0.030)
    interval = clock.delivery.interval
    assert interval > 0.05
    be_late(clock, 0.2, late=0.006)
    settled = clock.delivery.interval
    assert be_late(clock, 10.0, late=0.006)[-1] == settled


@pytest.mark.parametrize(("shortest_ms", "longest_ms"), [(50, 50), (200, 200)])
def test_without_room_to_lengthen_the_interval_is_fixed(shortest_ms: int, longest_ms: int) -> None:
    clock = HandTurnedClock(shortest_ms, longest_ms)
    assert be_late(clock, 3.0, late=0.1) == [pytest.approx(shortest_ms / 1000)]


@pytest.mark.parametrize("shortest_ms", [10, 15, 25, 33, 50, 99, 1000])
def test_the_interval_is_never_shorter_than_the_batch_window(shortest_ms: int) -> None:
    assert DeliveryClock(0.0, shortest_ms, 1000).interval >= shortest_ms / 1000 - 1e-9
