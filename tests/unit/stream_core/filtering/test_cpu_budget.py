"""The CPU time of one answer's patterns."""

from __future__ import annotations

import pytest

from evenflow.stream_core.filtering.cpu_budget import CpuBudget
from evenflow.stream_core.filtering.pattern import PatternTooSlow


def _no_time() -> float:
    return 0.0


def test_it_grows_with_the_text_and_is_spent_once() -> None:
    spent: list[int] = []
    budget = CpuBudget(_no_time, lambda: spent.append(1))
    for _ in range(1_000):
        budget.charge(1_024, 0.01)
    assert not budget.is_spent
    for _ in range(1_000):
        budget.charge(1_024, 0.03)
    assert (budget.is_spent, spent) == (True, [1])


def test_what_was_saved_up_is_bounded() -> None:
    budget = CpuBudget(_no_time)
    budget.charge(10_000_000, 0.0)
    budget.charge(0, 0.3)
    assert budget.is_spent


def test_what_was_held_has_a_budget_of_its_own_and_fails_behind_it() -> None:
    budget = CpuBudget(_no_time)
    budget.exhaust()
    budget.begin_last()
    budget.charge(1, 1.0)
    assert not budget.is_spent
    with pytest.raises(PatternTooSlow):
        budget.charge(1, 1.5)
