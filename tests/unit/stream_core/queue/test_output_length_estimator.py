"""How long a tenant's answers are expected to be, and what they cost."""

from __future__ import annotations

import pytest

from evenflow.stream_core.queue.output_length_estimator import OutputLengthEstimator


def test_what_is_expected_follows_the_answers_that_ended() -> None:
    answers = OutputLengthEstimator()
    guess = answers.of("a")
    answers.ended("a", 20, 1_040)
    assert answers.of("a")[:2] == (20, 1_040)
    answers.ended("a", 40, 1_080)
    assert answers.of("a")[:2] == (30, 1_060)
    for _ in range(40):
        answers.ended("a", 60, 1_120)
    assert answers.of("a")[:2] == pytest.approx((60, 1_120), abs=0.1)
    assert answers.of("b") == guess
    assert (answers.knows("a"), answers.knows("b")) == (True, False)
    assert guess.tokens > 20


def test_what_is_to_come_of_an_answer() -> None:
    answers = OutputLengthEstimator()
    guess = answers.of("a").tokens
    assert [answers.to_come("a", tokens) for tokens in (0, 100)] == [guess, guess - 100]
    assert answers.to_come("a", 1_000) == guess / 2, "nobody knows, and it is long"
    answers.ended("a", 400, 800)
    assert [answers.to_come("a", tokens) for tokens in (0, 100, 1_000)] == [400, 300, 0]


def test_of_many_tenants_the_oldest_is_forgotten() -> None:
    answers = OutputLengthEstimator()
    for number in range(10_001):
        answers.ended(f"t{number}", 1, 2)
    assert answers.of("t0") == OutputLengthEstimator().of("t0")
    assert answers.of("t1").tokens < answers.of("t0").tokens
