from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.delivery_clock import TimerWheel


class Entry:
    """Writes down in which slots it was called; `then` is done at each call."""

    def __init__(self, then: Callable[[int], None] = lambda _slot: None) -> None:
        self.called_in: list[int] = []
        self._then = then

    def on_due(self, slot: int) -> None:
        self.called_in.append(slot)
        self._then(slot)


def turn_in_steps(wheel: TimerWheel, target: int, most: int) -> int:
    turns = 1
    while not wheel.turn(target, most):
        turns += 1
    return turns


@given(
    st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 60)), max_size=60),
    st.integers(1, 7),
)
def test_each_entry_is_called_once_in_its_slot_or_at_once_when_that_has_passed(
    puts: list[tuple[int, int]], most: int
) -> None:
    """`puts`: slot asked for, and the position at which it is asked."""
    wheel = TimerWheel()
    entries: list[tuple[Entry, int]] = []
    for position in range(62):
        for slot, asked_at in puts:
            if asked_at == position:
                entry = Entry()
                wheel.put(entry, slot)
                entries.append((entry, max(slot, position)))
        turn_in_steps(wheel, position, most)
        assert wheel.position == position + 1
        assert all(
            entry.called_in == ([slot] if slot <= position else []) for entry, slot in entries
        )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=50), st.integers(1, 9))
def test_slots_are_emptied_in_order_however_small_the_budget(slots: list[int], most: int) -> None:
    wheel = TimerWheel()
    called: list[int] = []
    for slot in slots:
        wheel.put(Entry(called.append), slot)
    turn_in_steps(wheel, 30, most)
    assert called == sorted(slots)


def test_a_turn_calls_no_more_than_its_budget_and_says_that_there_is_more() -> None:
    wheel = TimerWheel()
    called: list[int] = []
    for _ in range(10):
        wheel.put(Entry(called.append), 3)
    assert not wheel.turn(5, 4)
    assert (len(called), wheel.position) == (4, 3)
    assert not wheel.turn(5, 4)
    assert len(called) == 8
    assert wheel.turn(5, 4)
    assert (len(called), wheel.position) == (10, 6)


def test_a_budget_that_is_just_enough_gets_there() -> None:
    wheel = TimerWheel()
    entries = [Entry() for _ in range(4)]
    for entry in entries:
        wheel.put(entry, 0)
    assert wheel.turn(0, 4)


def test_an_entry_put_during_a_turn_into_the_current_or_a_passed_slot_is_called_in_that_turn() -> (
    None
):
    wheel = TimerWheel()
    late = Entry()
    early = Entry(lambda slot: wheel.put(late, slot - 3))
    wheel.put(early, 4)
    assert wheel.turn(4, 100)
    assert late.called_in == [4]


def test_an_entry_put_during_a_turn_into_a_later_slot_waits_for_it() -> None:
    wheel = TimerWheel()
    again = Entry()
    wheel.put(Entry(lambda slot: wheel.put(again, slot + 2)), 1)
    wheel.turn(2, 100)
    assert again.called_in == []
    wheel.turn(3, 100)
    assert again.called_in == [3]


def test_an_entry_that_puts_itself_into_the_current_slot_is_bound_by_the_budget() -> None:
    wheel = TimerWheel()
    entry = Entry(lambda slot: wheel.put(entry, slot))
    wheel.put(entry, 0)
    assert not wheel.turn(0, 50)
    assert len(entry.called_in) == 50


def test_the_far_future_costs_nothing_until_it_comes() -> None:
    wheel = TimerWheel()
    entry = Entry()
    wheel.put(entry, 10_000_000)
    wheel.turn(1000, 100)
    assert entry.called_in == []
    wheel.position = 9_999_999
    wheel.turn(10_000_000, 100)
    assert entry.called_in == [10_000_000]


def test_the_same_entry_may_stand_in_several_slots_and_twice_in_one() -> None:
    wheel = TimerWheel()
    entry = Entry()
    for slot in (1, 1, 4):
        wheel.put(entry, slot)
    wheel.turn(9, 100)
    assert entry.called_in == [1, 1, 4]


def test_after_an_entry_has_failed_the_next_turn_goes_on_behind_it() -> None:
    wheel = TimerWheel()

    def fail(_slot: int) -> None:
        raise RuntimeError("broken entry")

    before, broken, after = Entry(), Entry(fail), Entry()
    for entry in (before, broken, after):
        wheel.put(entry, 2)
    with pytest.raises(RuntimeError, match="broken entry"):
        wheel.turn(2, 100)
    assert wheel.turn(2, 100)
    assert [len(entry.called_in) for entry in (before, broken, after)] == [1, 1, 1]


def test_turning_to_where_the_wheel_is_already_changes_nothing() -> None:
    wheel = TimerWheel()
    wheel.turn(5, 1)
    assert wheel.turn(3, 1)
    assert wheel.position == 6
