"""A server that refuses what is too much has as many slots as calls ran beside."""

from __future__ import annotations

from evenflow.stream_core.upstream.aimd_limit import AIMDLimit
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.first_token_latency import FirstToken

WANTED = {"a": {"greedy": 90}, "b": {"greedy": 90}}


def on_other_nodes(running: int) -> CallsOnOtherNodes:
    return CallsOnOtherNodes(running=running, answered=running, node="a", wanted_by_node=WANTED)


def flooded(limit: AIMDLimit, running: int, takes: int, at: float = 1.0) -> None:
    """Of so many calls that began together all are refused that the server doesn't take."""
    for beside in range(running - 1, takes - 1, -1):
        limit.record_rejection(beside, began_at=at - 0.5, now=at)


def found(takes: int = 32) -> AIMDLimit:
    limit = AIMDLimit()
    flooded(limit, 100, takes)
    return limit


def test_of_a_flood_those_that_are_left_are_the_bound() -> None:
    assert found(32).limit == 32
    assert found(3).limit == 3


def test_a_call_beyond_the_bound_changes_nothing() -> None:
    limit = found()
    limit.record_rejection(32, began_at=2.0, now=2.1)
    assert limit.limit == 32
    assert not limit.may_start(32)


def test_where_nobody_else_asks_a_bound_that_is_known_is_lowered_by_a_tenth_at_a_time() -> None:
    limit = found(50)
    for beside in (20, 19, 18):
        limit.record_rejection(beside, began_at=10.0, now=10.5)
    assert limit.limit == 45, "those that were refused together count once"
    limit.record_rejection(17, began_at=11.0, now=11.5)
    assert limit.limit == 40


def test_it_is_raised_by_what_others_tell_next() -> None:
    limit = AIMDLimit()
    flooded(limit, 20, 12)
    assert limit.limit == 12
    limit.learn(on_other_nodes(9), now=1.2)
    limit.learn(on_other_nodes(19), now=1.6)
    assert limit.limit == 31
    limit.learn(on_other_nodes(40), now=2.6)
    assert limit.limit == 31, "by then they may have begun more"


def test_what_is_known_is_not_lowered_by_a_refusal_of_which_others_have_not_told() -> None:
    limit = found(32)
    for _ in range(2):
        limit.learn(CallsOnOtherNodes(unreported_nodes=2), now=9.0)
    limit.record_rejection(10, began_at=10.0, now=10.5)
    assert limit.limit == 32


def test_it_grows_by_one_with_as_many_first_tokens_at_it_as_there_are_slots() -> None:
    limit = found(4)
    at_the_bound = FirstToken(3, 0, 100, 0, 0.1)
    for answers in range(1, 12):
        limit.record_first_token(at_the_bound, answered=4, now=2.0)
        assert limit.limit == 4 + (answers >= 4), "one that began beside fewer tells nothing"


def test_until_others_have_told_a_task_keeps_what_the_server_took() -> None:
    limit = AIMDLimit()
    limit.learn(on_other_nodes(2), now=0.5)
    flooded(limit, 40, 16)
    assert limit.limit == 18
    assert [limit.may_start(running) for running in (15, 16)] == [True, False]
    limit.learn(on_other_nodes(16), now=1.2)
    limit.learn(on_other_nodes(16), now=1.6)
    assert (limit.limit, limit.share) == (32, 16)
    others = CallsOnOtherNodes(running=20, node="a", wanted_by_node=WANTED | {"c": {"greedy": 90}})
    limit.learn(others, now=2.6)
    assert limit.share == 10


def test_a_tenth_is_for_newcomers_and_one_at_least() -> None:
    limit = found(32)
    assert [limit.only_reserved(running) for running in (28, 29)] == [False, True]
    assert [found(4).only_reserved(running) for running in (2, 3)] == [False, True]


def kept(task: str, tasks: str, slots: int) -> int:
    """How many of its slots a task keeps for newcomers."""
    found_there = found(slots)
    wanted = {name: {"greedy": 90} for name in tasks}
    for _ in range(2):
        found_there.learn(CallsOnOtherNodes(running=9, node=task, wanted_by_node=wanted), now=2.0)
    part = found_there.share
    assert part is not None
    return part - next(running for running in range(part) if found_there.only_reserved(running))


def test_tasks_keep_that_tenth_together() -> None:
    assert [kept(task, "abcd", 80) for task in "abcd"] == [2, 2, 2, 2]


def test_who_wants_little_may_have_more_than_the_part_of_a_task() -> None:
    limit = found(32)
    wanted = {"a": {"greedy": 60}, "b": {"greedy": 30, "quiet": 2}}
    for running in (0, 0, 14):
        limit.learn(CallsOnOtherNodes(running=running, node="a", wanted_by_node=wanted), now=2.0)
    assert limit.share == 15
    assert not limit.may_start(15, 15, "greedy")
    for tenant in ("quiet", "nobody has told of"):
        running = 15
        while limit.may_start(running, running, tenant):
            assert limit.only_reserved(running), "it is for who was given least"
            limit.record_start(running, running)
            running += 1
        assert running == 21


def test_when_it_is_forgotten_a_few_more_calls_find_it_again() -> None:
    limit = found(32)
    answers = FirstToken(10, 0, 100, 0, 0.1)
    for _ in range(100):
        limit.record_first_token(answers, answered=11, now=2.0)
    limit.record_first_token(answers, answered=11, now=302.0)
    assert limit.limit is None
    assert [limit.may_start(running, 32) for running in (39, 40)] == [True, False]
    flooded(limit, 40, 32, at=303.0)
    assert limit.limit == 32


def test_where_first_tokens_are_late_below_it_it_is_a_bound_as_others() -> None:
    limit = found(32)
    for running in range(10):
        limit.record_first_token(FirstToken(running, 0, 100, 0, 0.3), running + 1, now=5.0)
    for _ in range(4):
        limit.record_first_token(FirstToken(20, 0, 100, 0, 9.0), 20, now=30.0)
    assert limit.limit == 28
    assert [limit.only_reserved(running) for running in (22, 23)] == [False, True]
