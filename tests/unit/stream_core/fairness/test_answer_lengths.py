"""How long a tenant's answers are expected to be."""

from __future__ import annotations

import pytest

from stream_core.fairness.answer_lengths import AnswerLengths


def test_what_is_expected_follows_the_answers_that_ended() -> None:
    lengths = AnswerLengths()
    guess = lengths.expected("a")
    for _ in range(40):
        lengths.ended("a", 20)
    assert lengths.expected("a") == pytest.approx(20, abs=0.1)
    assert lengths.expected("b") == guess > 20


def test_of_many_tenants_the_oldest_is_forgotten() -> None:
    lengths = AnswerLengths()
    for number in range(10_001):
        lengths.ended(f"t{number}", 1)
    assert lengths.expected("t0") == AnswerLengths().expected("t0")
    assert lengths.expected("t1") < lengths.expected("t0")
