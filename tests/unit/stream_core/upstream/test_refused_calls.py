"""A server that refuses what is too much has as many slots as calls ran beside."""

from __future__ import annotations

from evenflow.stream_core.upstream.calls_elsewhere import CallsElsewhere
from evenflow.stream_core.upstream.first_tokens import FirstToken
from evenflow.stream_core.upstream.server_slots import ServerSlots

WANTED = {"a": {"greedy": 90}, "b": {"greedy": 90}}


def elsewhere(running: int) -> CallsElsewhere:
    return CallsElsewhere(running=running, answered=running, task="a", wanted=WANTED)


def flooded(slots: ServerSlots, running: int, takes: int, at: float = 1.0) -> None:
    """Of so many calls that began together all are refused that the server doesn't take."""
    for beside in range(running - 1, takes - 1, -1):
        slots.refused(beside, began_at=at - 0.5, now=at)


def found(takes: int = 32) -> ServerSlots:
    slots = ServerSlots()
    flooded(slots, 100, takes)
    return slots


def test_of_a_flood_those_that_are_left_are_the_bound() -> None:
    assert found(32).limit == 32
    assert found(3).limit == 3


def test_a_call_beyond_the_bound_changes_nothing() -> None:
    slots = found()
    slots.refused(32, began_at=2.0, now=2.1)
    assert slots.limit == 32
    assert not slots.has_room(32)


def test_where_nobody_else_asks_a_bound_that_is_known_is_lowered_by_a_tenth_at_a_time() -> None:
    slots = found(50)
    for beside in (20, 19, 18):
        slots.refused(beside, began_at=10.0, now=10.5)
    assert slots.limit == 45, "those that were refused together count once"
    slots.refused(17, began_at=11.0, now=11.5)
    assert slots.limit == 40


def test_it_is_raised_by_what_others_tell_next() -> None:
    slots = ServerSlots()
    flooded(slots, 20, 12)
    assert slots.limit == 12
    slots.learn(elsewhere(9), now=1.2)
    slots.learn(elsewhere(19), now=1.6)
    assert slots.limit == 31
    slots.learn(elsewhere(40), now=2.6)
    assert slots.limit == 31, "by then they may have begun more"


def test_what_is_known_is_not_lowered_by_a_refusal_of_which_others_have_not_told() -> None:
    slots = found(32)
    for _ in range(2):
        slots.learn(CallsElsewhere(tasks=3), now=9.0)
    slots.refused(10, began_at=10.0, now=10.5)
    assert slots.limit == 32


def test_it_grows_by_one_with_as_many_first_tokens_at_it_as_there_are_slots() -> None:
    slots = found(4)
    at_the_bound = FirstToken(3, 0, 100, 0, 0.1)
    for answers in range(1, 12):
        slots.first_token(at_the_bound, answered=4, now=2.0)
        assert slots.limit == 4 + (answers >= 4), "one that began beside fewer tells nothing"


def test_until_others_have_told_a_task_keeps_what_the_server_took() -> None:
    slots = ServerSlots()
    slots.learn(elsewhere(2), now=0.5)
    flooded(slots, 40, 16)
    assert slots.limit == 18
    assert [slots.has_room(running) for running in (15, 16)] == [True, False]
    slots.learn(elsewhere(16), now=1.2)
    slots.learn(elsewhere(16), now=1.6)
    assert (slots.limit, slots.part) == (32, 16)
    others = CallsElsewhere(running=20, task="a", wanted=WANTED | {"c": {"greedy": 90}})
    slots.learn(others, now=2.6)
    assert slots.part == 10


def test_a_tenth_is_for_newcomers_and_one_at_least() -> None:
    slots = found(32)
    assert [slots.crowded(running) for running in (28, 29)] == [False, True]
    assert [found(4).crowded(running) for running in (2, 3)] == [False, True]


def kept(task: str, tasks: str, slots: int) -> int:
    """How many of its slots a task keeps for newcomers."""
    found_there = found(slots)
    wanted = {name: {"greedy": 90} for name in tasks}
    for _ in range(2):
        found_there.learn(CallsElsewhere(running=9, task=task, wanted=wanted), now=2.0)
    part = found_there.part
    assert part is not None
    return part - next(running for running in range(part) if found_there.crowded(running))


def test_tasks_keep_that_tenth_together() -> None:
    assert [kept(task, "abcd", 80) for task in "abcd"] == [2, 2, 2, 2]


def test_who_wants_little_may_have_more_than_the_part_of_a_task() -> None:
    slots = found(32)
    wanted = {"a": {"greedy": 60}, "b": {"greedy": 30, "quiet": 2}}
    for running in (0, 0, 14):
        slots.learn(CallsElsewhere(running=running, task="a", wanted=wanted), now=2.0)
    assert slots.part == 15
    assert not slots.has_room(15, 15, "greedy")
    for tenant in ("quiet", "nobody has told of"):
        running = 15
        while slots.has_room(running, running, tenant):
            assert slots.crowded(running), "it is for who was given least"
            slots.begins(running, running)
            running += 1
        assert running == 21


def test_when_it_is_forgotten_a_few_more_calls_find_it_again() -> None:
    slots = found(32)
    answers = FirstToken(10, 0, 100, 0, 0.1)
    for _ in range(100):
        slots.first_token(answers, answered=11, now=2.0)
    slots.first_token(answers, answered=11, now=302.0)
    assert slots.limit is None
    assert [slots.has_room(running, 32) for running in (39, 40)] == [True, False]
    flooded(slots, 40, 32, at=303.0)
    assert slots.limit == 32


def test_where_first_tokens_are_late_below_it_it_is_a_bound_as_others() -> None:
    slots = found(32)
    for running in range(10):
        slots.first_token(FirstToken(running, 0, 100, 0, 0.3), running + 1, now=5.0)
    for _ in range(4):
        slots.first_token(FirstToken(20, 0, 100, 0, 9.0), 20, now=30.0)
    assert slots.limit == 28
    assert [slots.crowded(running) for running in (22, 23)] == [False, True]
