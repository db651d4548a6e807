from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from evenflow.stream_core.delivery.interval_control import FULL, IntervalControl
from evenflow.stream_core.delivery.tenant_intervals import TwoIntervalControl

CALM, USUAL, LONGEST = 0, 5, 20
ROOMY = 0.80


@dataclass(frozen=True)
class Work:
    """What a node has to do: the load at `USUAL` slots would be `fixed + over + others`.

    `gap`: slots between two tokens of those over their share. At a shorter interval they are no
    more work.
    """

    fixed: float
    over: float
    others: float
    gap: int = 0

    def wanted(self, control: TwoIntervalControl) -> float:
        """The share of the core that it wants."""
        return self.at(control.over, control.others)

    def at(self, over: int, others: int) -> float:
        """The share of the core that it would want at such intervals."""
        return (
            self.fixed
            + self.over * USUAL / max(over, self.gap, 1)
            + self.others * USUAL / max(others, 1)
        )


def step(control: TwoIntervalControl, work: Work) -> tuple[int, int]:
    wanted = work.wanted(control)
    control.adapt(min(wanted, 1.0), min(1.0, 1 / max(wanted, 0.01)))
    return control.over, control.others


def live(control: TwoIntervalControl, work: Work, windows: int) -> list[tuple[int, int]]:
    """The slots of those over their share and of the others, after each of so many windows."""
    return [step(control, work) for _ in range(windows)]


def new_control(*, divided: bool = True) -> TwoIntervalControl:
    control = TwoIntervalControl(CALM, USUAL, LONGEST)
    if divided:
        control.divide(0.0, 1, 1)
    return control


WORKS = st.builds(
    Work, st.floats(0.0, 0.9), st.floats(0.0, 4.0), st.floats(0.0, 4.0), st.integers(0, 12)
)
BURST = Work(0.0, 9.0, 9.0)
MEASURED = st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 2.0))
DIVISIONS = st.tuples(st.integers(0, 5_000), st.integers(0, 5_000))


@given(st.lists(MEASURED, max_size=80))
def test_where_nobody_is_over_its_share_the_interval_is_that_of_interval_control(
    measurements: list[tuple[float, float]],
) -> None:
    control, alone = new_control(divided=False), IntervalControl(CALM, USUAL, LONGEST)
    for load, speed in measurements:
        control.adapt(load, speed)
        alone.adapt(load, speed)
        assert control.over == control.others == alone.slots


@given(st.lists(st.tuples(MEASURED, st.none() | DIVISIONS), max_size=80))
def test_nobody_else_is_stretched_while_who_is_over_its_share_is_not_at_the_longest(
    windows: list[tuple[tuple[float, float], tuple[int, int] | None]],
) -> None:
    control, divided = new_control(divided=False), False
    for measured, division in windows:
        if division is not None:
            control.divide(sum(division) / max(control.over, 1), *division)
            divided = division[0] > 0
        control.adapt(*measured)
        assert CALM <= control.others <= control.over <= LONGEST
        if divided:
            assert control.others <= USUAL or control.over == LONGEST
        else:
            assert control.others == control.over


@given(st.lists(WORKS, max_size=60))
def test_the_others_are_stretched_last_and_come_back_first(works: list[Work]) -> None:
    control = new_control()
    seen = [(CALM, CALM), *(step(control, work) for work in works)]
    for (over, others), (over_after, others_after) in itertools.pairwise(seen):
        if others_after > max(others, USUAL):
            assert over == LONGEST
        if over_after < over and over > USUAL:
            assert others == others_after == USUAL
        for before, after in ((over, over_after), (others, others_after)):
            assert after <= max(before * 1.25, before + 1, USUAL)
            assert max(before, USUAL) < 2 * max(after, USUAL)


@given(WORKS, DIVISIONS)
def test_in_a_steady_state_neither_swings_by_more_than_a_slot_whatever_the_readers_say(
    work: Work, readers: tuple[int, int]
) -> None:
    control = new_control(divided=False)
    control.divide(0.0, *readers)
    live(control, BURST, 40)
    live(control, work, 80)
    for slots in zip(*live(control, work, 60), strict=True):
        assert max(slots) - min(slots) <= 1


@given(WORKS.filter(lambda work: work.at(LONGEST, USUAL) < FULL))
def test_where_it_is_enough_to_stretch_those_over_their_share_the_others_keep_the_usual_interval(
    work: Work,
) -> None:
    control = new_control()
    seen = live(control, work, 80)
    assert max(others for _, others in seen) <= USUAL
    assert work.at(*seen[-1]) <= FULL


@given(WORKS.filter(lambda work: work.at(LONGEST, USUAL) > FULL))
def test_where_it_is_not_enough_the_others_get_little_more_than_is_needed(work: Work) -> None:
    control = new_control()
    live(control, work, 80)
    over, others = map(max, zip(*live(control, work, 10), strict=True))
    assert over == LONGEST
    if others < LONGEST:
        needed = next(slots for slots in range(USUAL, LONGEST) if work.at(over, slots) <= FULL)
        assert needed <= others <= 1.3 * needed


@given(WORKS.filter(lambda work: work.at(USUAL, USUAL) < ROOMY - 0.001), st.integers(0, 40))
def test_below_80_percent_the_others_are_back_within_two_seconds_and_all_within_four(
    work: Work, burst: int
) -> None:
    control = new_control()
    live(control, BURST, burst)
    passed = back = 0.0
    while control.stretched and passed < 60:
        window = max(0.1, control.over * SLOT_SECONDS)
        step(control, work)
        passed += window
        back = passed if control.others > USUAL else back
    assert back <= 2.0
    assert passed <= 4.0 - LONGEST * SLOT_SECONDS
    assert max(over for over, _ in live(control, work, 50)) <= USUAL, "and stay there"


@given(st.integers(0, 40), DIVISIONS, DIVISIONS)
def test_another_division_is_no_more_work_and_one_slot_less_would_be(
    windows: int, before: tuple[int, int], after: tuple[int, int]
) -> None:
    control = new_control(divided=False)
    control.divide(0.0, *before)
    live(control, BURST, windows)
    earlier, (over, others) = (control.over, control.others), after
    deliveries = (over + others) / max(control.over, 1)
    control.divide(deliveries, over, others)
    if earlier[0] <= USUAL:
        assert (control.over, control.others) == earlier, "there is nothing to divide anew"
        return
    assert over / control.over + others / control.others <= deliveries + 1e-6
    less = control.over - 1, control.others - 1
    if over and control.others > USUAL:
        less = control.over, control.others - 1
    elif over:
        less = control.over - 1, control.others
    if min(less) >= USUAL:
        assert over / less[0] + others / less[1] > deliveries


def test_the_others_are_back_though_it_is_nearly_full_where_they_are_little_of_the_load() -> None:
    control = new_control(divided=False)
    control.divide(0.0, 400, 20)
    live(control, BURST, 40)
    assert live(control, Work(0.0, 400 / 420 * 3.0, 20 / 420 * 3.0), 40)[-1] == (LONGEST, USUAL)


def test_who_becomes_greedy_while_all_are_stretched_takes_the_stretch_from_the_others() -> None:
    control = new_control(divided=False)
    while control.others < 8:
        step(control, BURST)
    control.divide(deliveries=100 / control.others, over=80, others=20)
    assert control.others == USUAL
    assert 8 < control.over < LONGEST
    control.divide(80 / control.over + 20 / control.others, over=0, others=100)
    assert control.over == control.others == 9, "in whole slots, and no more work than before"
