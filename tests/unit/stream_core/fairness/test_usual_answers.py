"""How long a tenant's answers are expected to be, and what they cost."""

from __future__ import annotations

import pytest

from stream_core.fairness.usual_answers import UsualAnswers


def test_what_is_expected_follows_the_answers_that_ended() -> None:
    answers = UsualAnswers()
    guess = answers.of("a")
    for _ in range(40):
        answers.ended("a", 20, 1_040)
    assert answers.of("a") == pytest.approx((20, 1_040), abs=0.1)
    assert answers.of("b") == guess
    assert (answers.knows("a"), answers.knows("b")) == (True, False)
    assert guess.tokens > 20


def test_of_many_tenants_the_oldest_is_forgotten() -> None:
    answers = UsualAnswers()
    for number in range(10_001):
        answers.ended(f"t{number}", 1, 2)
    assert answers.of("t0") == UsualAnswers().of("t0")
    assert answers.of("t1").tokens < answers.of("t0").tokens
