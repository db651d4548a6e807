from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from evenflow.stream_core.delivery.interval_control import IntervalControl, LoopLoad

CALM, USUAL, LONGEST = 0, 5, 20
FULL, ROOMY = 0.97, 0.80


@dataclass(frozen=True)
class Work:
    """What a node has to do: the load at `USUAL` slots would be `fixed + elastic`.

    `gap`: slots between two tokens. At a shorter interval there is no more work.
    """

    fixed: float
    elastic: float
    gap: int = 0

    def wanted(self, slots: int) -> float:
        """The share of the core that it wants."""
        return self.fixed + self.elastic * USUAL / max(slots, self.gap, 1)


def live(control: IntervalControl, work: Work, windows: int) -> list[int]:
    """The slots after each of so many windows."""
    return [step(control, work) for _ in range(windows)]


def step(control: IntervalControl, work: Work) -> int:
    wanted = work.wanted(control.slots)
    return control.adapt(min(wanted, 1.0), min(1.0, 1 / max(wanted, 0.01)))


def seconds_to_the_shortest(control: IntervalControl, work: Work) -> float:
    """How long until chats have their shortest interval again."""
    passed = 0.0
    while control.slots > USUAL and passed < 60:
        before = control.slots
        step(control, work)
        passed += max(0.1, before * SLOT_SECONDS)
    return passed


def new_control() -> IntervalControl:
    return IntervalControl(CALM, USUAL, LONGEST)


WORKS = st.builds(Work, st.floats(0.0, 0.9), st.floats(0.0, 4.0), st.integers(0, 12))
BURST = Work(fixed=0.0, elastic=9.0)


@given(WORKS)
def test_in_a_steady_state_it_does_not_swing_by_more_than_a_slot(work: Work) -> None:
    control = new_control()
    live(control, BURST, 30)
    live(control, work, 60)
    settled = live(control, work, 60)
    assert max(settled) - min(settled) <= 1


@given(WORKS.filter(lambda work: work.wanted(USUAL) < ROOMY - 0.001), st.integers(0, 30))
def test_below_80_percent_it_is_back_at_the_shortest_within_two_seconds(
    work: Work, burst: int
) -> None:
    control = new_control()
    live(control, BURST, burst)
    assert seconds_to_the_shortest(control, work) <= 2.0 - LONGEST * SLOT_SECONDS
    assert max(live(control, work, 50)) <= USUAL, "and stays there"


@given(WORKS.filter(lambda work: work.wanted(LONGEST * 2 // 3) < FULL))
def test_under_overload_it_settles_at_little_more_than_what_is_needed(work: Work) -> None:
    control = new_control()
    settled = live(control, work, 60)[-1]
    needed = next(slots for slots in itertools.count(USUAL) if work.wanted(slots) <= FULL)
    assert work.wanted(settled) <= FULL
    assert settled <= 1.3 * needed


@given(st.lists(WORKS, max_size=40))
def test_whatever_comes_no_interval_is_twice_the_one_before_it(works: list[Work]) -> None:
    control = new_control()
    seen = [max(USUAL, step(control, work)) for work in works]
    assert all(
        after <= max(before * 1.25, before + 1) and before < 2 * after
        for before, after in itertools.pairwise([USUAL, *seen])
    )
    assert all(CALM <= slots <= LONGEST for slots in seen)


def test_requests_are_given_tokens_at_once_up_to_half_a_core_and_in_chat_s_window_from_80_percent() -> (  # noqa: E501
    None
):
    control = new_control()
    at = {percent: live(control, Work(percent / 100, 0.0), 20)[-1] for percent in range(0, 96, 5)}
    assert all(at[percent] == CALM for percent in at if percent <= 50)
    assert all(at[percent] == USUAL for percent in at if percent >= 80)
    assert list(at.values()) == sorted(at.values())
    assert live(control, Work(0.3, 0.0), 20)[-1] == CALM


def test_while_the_wheel_catches_up_the_interval_is_long_enough() -> None:
    control = new_control()
    live(control, Work(0.0, 1.5), 2)
    before = control.slots
    assert [control.adapt(1.0, 1.2) for _ in range(10)] == [before] * 10


def test_what_does_not_grow_with_a_shorter_interval_does_not_keep_it_long() -> None:
    control = new_control()
    live(control, BURST, 30)
    assert control.slots == LONGEST
    slow_model = Work(0.0, 1.75, gap=12)  # 73 % of a core at any interval below its tokens' gap
    assert seconds_to_the_shortest(control, slow_model) <= 2.0


# -- the load --------------------------------------------------------------------------------------


class Turns:
    """A clock's turns, as its `LoopLoad` is told of them."""

    def __init__(self) -> None:
        self.now, self.busy = 1000.0, 5.0
        self.load = LoopLoad(self.now)
        self.turn(0.0, 0.0, 0.0)
        self.load.read(self.now)

    def turn(
        self, pause: float, computed: float, lasts: float, *, late: float = 0.0, stolen: float = 0.0
    ) -> None:
        """After `pause`, of which so much was computed, a turn that lasts so long.

        Args:
            stolen: how long the turn had no core.
        """
        self.now, self.busy = self.now + pause, self.busy + computed
        self.load.turn_begins(self.now, self.busy, late)
        self.now, self.busy = self.now + lasts, self.busy + lasts - stolen
        self.load.turn_ends(self.now, self.busy)

    def read(self) -> float:
        return self.load.read(self.now)


def test_turns_and_what_is_computed_between_them_are_the_load() -> None:
    turns = Turns()
    for _ in range(10):
        turns.turn(0.006, 0.003, 0.004)
    assert turns.read() == pytest.approx(0.7)
    turns.turn(0.010, 0.001, 0.0)
    assert turns.read() == pytest.approx(0.1), "of the time since the last reading"


def test_a_turn_without_its_core_counts_whole_and_so_does_the_wait_for_one() -> None:
    turns = Turns()
    for _ in range(10):
        turns.turn(0.010, 0.001, 0.004, late=0.005, stolen=0.003)
    assert turns.read() == pytest.approx((0.005 - 0.002 + 0.004) / 0.014)


def test_a_timer_that_is_a_little_late_is_no_load() -> None:
    turns = Turns()
    for _ in range(10):
        turns.turn(0.010, 0.0, 0.0, late=0.0015)
    assert turns.read() == 0.0


def test_a_wheel_that_never_catches_up_is_full_whatever_it_computes() -> None:
    turns = Turns()
    for _ in range(10):
        turns.turn(0.006, 0.0, 0.004, late=0.1, stolen=0.002)
    assert turns.read() == 1.0


def test_a_suspended_thread_is_left_out() -> None:
    turns = Turns()
    turns.turn(60.0, 0.01, 0.0, late=60.0)
    turns.turn(0.09, 0.0, 0.0)
    assert turns.load.elapsed(turns.now) == pytest.approx(0.1, abs=0.003)
    assert turns.read() == pytest.approx(0.1, abs=0.01)
