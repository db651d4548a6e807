from __future__ import annotations

from collections import Counter

import pytest

from evenflow.fargate_handler.inference.worker_pool import KnownWorker, WorkerPool

REST = 5.0


@pytest.fixture
def pool() -> WorkerPool[str]:
    """Three workers, whose connections are strings."""
    pool = WorkerPool(lambda target, address: f"{target} by {address}", REST)
    assert pool.update({"a": "x", "b": "x", "c": "y"}) == []
    return pool


def picked(pool: WorkerPool[str], now: float = 0.0) -> KnownWorker[str]:
    worker = pool.pick(now)
    assert worker is not None
    return worker


def named(pool: WorkerPool[str], name: str) -> KnownWorker[str]:
    return next(worker for worker in pool.workers if worker.connection.startswith(name))


def test_answers_of_any_length_spread_evenly(pool: WorkerPool[str]) -> None:
    for number in range(300):
        worker = picked(pool)
        worker.outstanding += 1
        if worker.connection.startswith("a") and number % 2:
            worker.outstanding -= 1  # its answers are short
    outstanding = sorted(worker.outstanding for worker in pool.workers)
    assert outstanding[-1] - outstanding[0] <= 1
    assert outstanding[0] > 50


def test_equals_are_picked_by_chance(pool: WorkerPool[str]) -> None:
    counts = Counter(picked(pool).connection for _ in range(3000))
    assert sorted(counts.values()) == pytest.approx([1000, 1000, 1000], abs=200)


def test_one_that_failed_rests_even_when_it_is_the_least_busy(pool: WorkerPool[str]) -> None:
    a, b, c = (named(pool, name) for name in "abc")
    b.outstanding, c.outstanding = 5, 6
    pool.rest(a, 100.0)
    assert pool.pick(100.0 + REST - 0.1) is b
    assert pool.pick(100.0 + REST) is a


def test_when_all_rest_the_one_that_has_rested_longest_is_asked(pool: WorkerPool[str]) -> None:
    for moment, name in ((3.0, "a"), (1.0, "b"), (2.0, "c")):
        pool.rest(named(pool, name), moment)
    assert pool.pick(4.0) is named(pool, "b")
    assert pool.pick(4.0, [named(pool, "b")]) is named(pool, "c")


def test_a_single_address_is_asked_again_since_it_may_hide_several() -> None:
    pool: WorkerPool[str] = WorkerPool(lambda target, address: target, REST)
    pool.update({"alias": "x"})
    tried: list[KnownWorker[str]] = []
    while (worker := pool.pick(0.0, tried)) is not None:
        tried.append(worker)
        pool.rest(worker, 0.0)
    assert [worker.connection for worker in tried] == ["alias"] * 5
    assert pool.pick(0.0) is tried[0], "the next answer is not refused because it rests"


def test_of_two_addresses_the_one_that_has_rested_longer_is_asked_again() -> None:
    pool: WorkerPool[str] = WorkerPool(lambda target, address: target, REST)
    pool.update({"alias": "x", "unreachable": "x"})
    tried = [named(pool, "unreachable"), named(pool, "alias")]
    pool.rest(tried[1], 1.0)
    pool.rest(tried[0], 2.0)
    assert pool.pick(3.0, tried) is tried[1]


def test_one_that_answers_again_rests_no_more(pool: WorkerPool[str]) -> None:
    for worker in pool.workers:
        worker.outstanding = 1
    a = named(pool, "a")
    a.outstanding = 0
    pool.rest(a, 0.0)
    pool.wake(a, continues=True, tools=True)
    assert pool.pick(0.1) is a


def test_nobody_is_picked_twice_for_one_answer(pool: WorkerPool[str]) -> None:
    pool.update(dict.fromkeys("abcdef", "x"))
    tried: list[KnownWorker[str]] = []
    while (worker := pool.pick(0.0, tried)) is not None:
        tried.append(worker)
    assert len(set(map(id, tried))) == len(tried) == 6
    assert WorkerPool(lambda target, address: target, REST).pick(0.0) is None


def test_answers_are_continued_when_every_worker_said_so(pool: WorkerPool[str]) -> None:
    assert not pool.continue_answers
    for worker in pool.workers:
        pool.wake(worker, continues=True, tools=True)
    assert pool.continue_answers
    pool.rest(named(pool, "b"), 0.0)
    assert pool.continue_answers, "the others do, and what comes back says it again"
    pool.wake(named(pool, "b"), continues=False, tools=True)
    assert not pool.continue_answers
    for worker in pool.workers:
        pool.rest(worker, 0.0)
    assert not pool.continue_answers, "nobody is there to say so"
    pool.update({})
    assert not pool.continue_answers


def test_names_that_stand_for_others_now(pool: WorkerPool[str]) -> None:
    kept, busy = named(pool, "a"), named(pool, "b")
    busy.outstanding = 1
    assert pool.update({"a": "x", "d": "x"}) == ["c by y"], (
        "the one that still answers is closed by its last answer"
    )
    assert [worker.connection for worker in pool.workers] == ["a by x", "d by x"]
    assert (kept.is_removed, busy.is_removed) == (False, True)
    assert named(pool, "a") is kept
