"""How long a place in the queue takes, by the pace of the last seconds."""

from __future__ import annotations

import pytest

from evenflow.stream_core.policy.queue_place import StartRate


def test_nothing_is_known_before_anything_began() -> None:
    assert StartRate().expected_seconds(1, 0.0) is None


@pytest.mark.parametrize(("position", "expected"), [(1, 0.0), (4, 2.0), (20, 10.0)])
def test_it_is_the_place_by_the_pace(position: int, expected: float) -> None:
    rate = StartRate()
    for tenth in range(20):
        rate.note(tenth * 0.5)  # two in a second
    assert rate.expected_seconds(position, 10.0) == pytest.approx(expected, abs=1)


def test_what_began_long_ago_says_nothing() -> None:
    rate = StartRate()
    rate.note(0.0)
    assert rate.expected_seconds(1, 11.0) is None


def test_while_the_model_is_closed_it_is_at_least_that() -> None:
    rate = StartRate()
    assert rate.expected_seconds(1, 0.0, at_least=7.4) == 7.0
    rate.note(0.0)
    assert rate.expected_seconds(1, 1.0, at_least=7.4) == 7.0
