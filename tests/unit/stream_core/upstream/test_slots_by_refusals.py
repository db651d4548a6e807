"""Each refusal corrects an estimate of how many calls a server answers at once."""

from __future__ import annotations

from random import Random

from evenflow.stream_core.upstream.slots_by_refusals import SlotsByRefusals


def found(here: int = 12, elsewhere: int = 20) -> SlotsByRefusals:
    """By one refusal, of which others have told."""
    slots = SlotsByRefusals(None)
    slots.refused(here, 0, began_at=0.5, now=1.0)
    slots.told(elsewhere - 5, ())
    slots.told(elsewhere, ())
    return slots


def test_the_first_refusal_tells_what_ran_beside_it_as_others_have_told_since() -> None:
    assert found(12, 20).limit == 32


def test_until_they_have_told_a_task_keeps_what_the_server_took() -> None:
    slots = SlotsByRefusals(None)
    assert slots.held == 0
    slots.refused(16, 2, began_at=0.5, now=1.0)
    slots.refused(14, 2, began_at=0.6, now=1.0)
    assert (slots.limit, slots.held) == (16, 14)
    for _ in range(2):
        slots.told(16, ())
    assert (slots.limit, slots.held) == (30, 0)


def test_refusals_before_others_have_told_for_the_first_time_count_as_one() -> None:
    """A flood begins at several tasks: each is refused more than once before it knows of others."""
    slots = SlotsByRefusals(None)
    for now in (1.0, 1.1, 1.2):
        slots.refused(16, None, began_at=now - 0.05, now=now)
    slots.told(8, ())
    slots.told(16, ())
    assert (slots.limit, slots.held) == (32, 0)


def test_the_next_ones_count_less_until_it_is_a_quarter() -> None:
    """What others have told is a second old."""
    slots, limits = found(12, 20), list[int]()
    for number in range(5):
        slots.refused(12, 8, began_at=10.0 * number + 9, now=10.0 * number + 10)
        slots.told(8, ())
        slots.told(8, ())
        limits.append(slots.limit)
    assert limits == [26, 24, 23, 22, 22]


def test_while_others_have_to_tell_of_one_refusal_no_other_counts() -> None:
    slots = found()
    slots.refused(12, 20, began_at=9.0, now=10.0)
    slots.refused(2, 20, began_at=10.5, now=11.0)
    assert slots.limit == 32
    slots.refused(2, 20, began_at=13.0, now=13.5)  # they tell nothing
    assert slots.limit == 29


def test_alone_a_task_knows_it_at_once_and_lowers_it_by_a_tenth_at_a_time() -> None:
    slots, limits = SlotsByRefusals(None), list[int]()
    for here, at in ((41, 1.0), (40, 1.0), (38, 2.0), (37, 2.0), (9, 3.0), (50, 4.0)):
        slots.refused(here, None, began_at=at - 0.5, now=at)
        limits.append(slots.limit)
    assert limits == [41, 40, 38, 37, 33, 50]


def test_tasks_take_the_mean_of_what_they_have_found() -> None:
    slots = found(12, 20)
    slots.told(20, (26, 29))
    assert slots.limit == 29
    slots.grow()
    assert slots.limit == 30


def test_one_call_may_always_run() -> None:
    slots = SlotsByRefusals(None)
    slots.refused(0, None, began_at=0.0, now=1.0)
    assert slots.limit == 1


def test_three_tasks_that_hear_of_each_other_late_agree_on_what_the_server_takes() -> None:
    drawn, takes = Random(1), 32
    tasks = [SlotsByRefusals(None) for _ in range(3)]
    for second in range(40):
        refused = drawn.randrange(3)
        here = drawn.randint(6, 14)
        told = takes - here + drawn.randint(-4, 4)
        tasks[refused].refused(here, told, began_at=second + 0.5, now=second + 0.6)
        for task in tasks:
            others = tuple(it.limit for it in tasks if it is not task and it.slots)
            task.told(takes - here + drawn.randint(-4, 4), others)
        if second >= 10:
            assert all(abs(task.limit - takes) <= 2 for task in tasks)
