"""How long a place in the queue takes, by the pace of the last starts."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.queue_place import StartRate


def test_nothing_is_known_before_anything_began() -> None:
    assert StartRate().expected_seconds(1, 0.0) is None


@pytest.mark.parametrize(("position", "expected"), [(1, 0.0), (4, 2.0), (20, 10.0)])
def test_it_is_the_place_by_the_pace(position: int, expected: float) -> None:
    rate = StartRate()
    for tenth in range(20):
        rate.note(tenth * 0.5, waited=True)  # two in a second
    assert rate.expected_seconds(position, 10.0) == pytest.approx(expected, abs=1)


def test_it_falls_as_the_answer_before_goes_on() -> None:
    """One answer runs at a time, each for 5 s."""
    rate = StartRate()
    rate.note(0.0, waited=False)
    assert [rate.expected_seconds(1, now) for now in (1.0, 3.0)] == [None, None]
    rate.note(5.0, waited=True)
    assert [rate.expected_seconds(1, 5.0 + now) for now in range(6)] == [5, 4, 3, 2, 1, 0]
    assert rate.expected_seconds(2, 6.0) == 9
    assert rate.expected_seconds(1, 12.0) == 0, "late, it is expected at any moment"


def test_an_idle_time_is_no_pace() -> None:
    rate = StartRate()
    rate.note(0.0, waited=False)
    rate.note(600.0, waited=False)
    assert rate.expected_seconds(1, 601.0) is None


def test_answers_longer_than_the_window_say_how_long_they_take() -> None:
    rate = StartRate()
    for start in (0.0, 30.0, 60.0):
        rate.note(start, waited=start > 0)
    assert rate.expected_seconds(1, 80.0) == 10


def test_while_the_model_is_closed_it_is_at_least_that() -> None:
    rate = StartRate()
    assert rate.expected_seconds(1, 0.0, at_least=7.4) == 7.0
    rate.note(0.0, waited=False)
    assert rate.expected_seconds(1, 1.0, at_least=7.4) == 7.0
