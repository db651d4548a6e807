from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.distribution import Distribution

LOWEST, HIGHEST = Distribution.BOUNDS[0], Distribution.BOUNDS[-1]
OCTAVE_THIRD = 2 ** (1 / 3)


def recorded(values: list[float]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.record(value)
    return distribution


@given(st.lists(st.floats(LOWEST, HIGHEST), min_size=1, max_size=200), st.floats(0, 100))
def test_a_percentile_is_within_a_bucket_of_the_truth(values: list[float], p: float) -> None:
    told = recorded(values).percentile(p)
    rank = max(1, math.ceil(len(values) * p / 100 - 1e-9))
    true = sorted(values)[rank - 1]
    # 1 % more: the bounds are rounded to three places.
    assert true / (OCTAVE_THIRD * 1.01) <= told <= true * OCTAVE_THIRD * 1.01 or abs(told - true) <= LOWEST


@given(st.lists(st.floats(0, 1e6), max_size=100))
def test_the_count_and_the_total_are_exact(values: list[float]) -> None:
    distribution = recorded(values)
    assert distribution.count == len(values)
    assert distribution.total == pytest.approx(sum(values))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_percentiles_rise(values: list[float]) -> None:
    told = [recorded(values).percentile(p) for p in (0, 25, 50, 75, 95, 99, 99.9, 100)]
    assert told == sorted(told)


def test_nothing_recorded_is_zero() -> None:
    assert Distribution().percentile(95) == 0.0


@pytest.mark.parametrize("bound", range(len(Distribution.BOUNDS)))
def test_a_bound_belongs_to_its_own_bucket(bound: int) -> None:
    distribution = recorded([Distribution.BOUNDS[bound]])
    assert distribution.counts[bound] == 1


def test_what_is_below_the_first_bound_and_above_the_last_is_counted() -> None:
    distribution = recorded([0.0, 0.05, HIGHEST * 10])
    assert distribution.counts[0] == 2
    assert distribution.counts[-1] == 1
    assert distribution.percentile(100) == HIGHEST


def test_the_bounds_rise_by_a_third_of_an_octave() -> None:
    assert all(1.24 < high / low < 1.28 for low, high in pairwise(Distribution.BOUNDS))
    assert len(Distribution().counts) == len(Distribution.BOUNDS) + 1 <= 100
