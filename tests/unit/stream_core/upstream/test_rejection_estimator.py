"""Each refusal corrects an estimate of how many calls a server answers at once."""

from __future__ import annotations

from random import Random

from evenflow.stream_core.upstream.rejection_estimator import RejectionEstimator


def found(here: int = 12, elsewhere: int = 20) -> RejectionEstimator:
    """By one refusal, of which others have told."""
    estimator = RejectionEstimator(None)
    estimator.record_rejection(here, 0, began_at=0.5, now=1.0)
    estimator.record_reports(elsewhere - 5, ())
    estimator.record_reports(elsewhere, ())
    return estimator


def test_the_first_refusal_tells_what_ran_beside_it_as_others_have_told_since() -> None:
    assert found(12, 20).limit == 32


def test_until_they_have_told_a_task_keeps_what_the_server_took() -> None:
    estimator = RejectionEstimator(None)
    assert estimator.kept == 0
    estimator.record_rejection(16, 2, began_at=0.5, now=1.0)
    estimator.record_rejection(14, 2, began_at=0.6, now=1.0)
    assert (estimator.limit, estimator.kept) == (16, 14)
    for _ in range(2):
        estimator.record_reports(16, ())
    assert (estimator.limit, estimator.kept) == (30, 0)


def test_refusals_before_others_have_told_for_the_first_time_count_as_one() -> None:
    """A flood begins at several tasks: each is refused more than once before it knows of others."""
    estimator = RejectionEstimator(None)
    for now in (1.0, 1.1, 1.2):
        estimator.record_rejection(16, None, began_at=now - 0.05, now=now)
    estimator.record_reports(8, ())
    estimator.record_reports(16, ())
    assert (estimator.limit, estimator.kept) == (32, 0)


def test_the_next_ones_count_less_until_it_is_a_quarter() -> None:
    """What others have told is a second old."""
    estimator, limits = found(12, 20), list[int]()
    for number in range(5):
        estimator.record_rejection(12, 8, began_at=10.0 * number + 9, now=10.0 * number + 10)
        estimator.record_reports(8, ())
        estimator.record_reports(8, ())
        limits.append(estimator.limit)
    assert limits == [26, 24, 23, 22, 22]


def test_while_others_have_to_tell_of_one_refusal_no_other_counts() -> None:
    estimator = found()
    estimator.record_rejection(12, 20, began_at=9.0, now=10.0)
    estimator.record_rejection(2, 20, began_at=10.5, now=11.0)
    assert estimator.limit == 32
    estimator.record_rejection(2, 20, began_at=13.0, now=13.5)  # they tell nothing
    assert estimator.limit == 29


def test_alone_a_task_knows_it_at_once_and_lowers_it_by_a_tenth_at_a_time() -> None:
    estimator, limits = RejectionEstimator(None), list[int]()
    for here, at in ((41, 1.0), (40, 1.0), (38, 2.0), (37, 2.0), (9, 3.0), (50, 4.0)):
        estimator.record_rejection(here, None, began_at=at - 0.5, now=at)
        limits.append(estimator.limit)
    assert limits == [41, 40, 38, 37, 33, 50]


def test_tasks_take_the_mean_of_what_they_have_found() -> None:
    estimator = found(12, 20)
    estimator.record_reports(20, (26, 29))
    assert estimator.limit == 29
    estimator.grow_to(30)
    assert estimator.limit == 30


def test_one_call_may_always_run() -> None:
    estimator = RejectionEstimator(None)
    estimator.record_rejection(0, None, began_at=0.0, now=1.0)
    assert estimator.limit == 1


def test_three_tasks_that_hear_of_each_other_late_agree_on_what_the_server_takes() -> None:
    drawn, takes = Random(1), 32
    tasks = [RejectionEstimator(None) for _ in range(3)]
    for second in range(40):
        refused = drawn.randrange(3)
        here = drawn.randint(6, 14)
        told = takes - here + drawn.randint(-4, 4)
        tasks[refused].record_rejection(here, told, began_at=second + 0.5, now=second + 0.6)
        for task in tasks:
            others = tuple(it.limit for it in tasks if it is not task and it.estimate)
            task.record_reports(takes - here + drawn.randint(-4, 4), others)
        if second >= 10:
            assert all(abs(task.limit - takes) <= 2 for task in tasks)
