from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.metrics.instruments import Distribution
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, Metric, MetricKind

LOWEST, HIGHEST = Distribution.BOUNDS[0], Distribution.BOUNDS[-1]
WIDTH = 1.143  # the widest bucket: from 1.4 to 1.6


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
    assert true / WIDTH <= told <= true * WIDTH or abs(told - true) <= LOWEST


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


def test_a_bound_belongs_to_its_own_bucket() -> None:
    for number, bound in enumerate(Distribution.BOUNDS):
        assert recorded([bound]).counts[number] == 1, bound


def test_what_is_below_the_first_bound_and_above_the_last_is_counted() -> None:
    distribution = recorded([0.0, 0.05, HIGHEST * 10])
    assert distribution.counts[0] == 2
    assert distribution.counts[-1] == 1
    assert distribution.percentile(100) == HIGHEST


def test_bounds_are_at_most_a_seventh_apart_and_fit_into_a_request() -> None:
    assert all(1.1 < high / low < WIDTH for low, high in pairwise(Distribution.BOUNDS))
    assert len(Distribution().counts) == len(Distribution.BOUNDS) + 1 <= 150, (
        "values of a metric in PutMetricData"
    )


@pytest.mark.parametrize(
    "metric",
    [m for m in CATALOGUE if m.alarm and m.kind is MetricKind.DISTRIBUTION],
    ids=lambda metric: str(metric.name),
)
def test_every_threshold_is_a_bound(metric: Metric) -> None:
    assert metric.alarm is not None
    assert metric.alarm.above in Distribution.BOUNDS


# -- as values and counts --------------------------------------------------------------------------


def spread(weighted: list[tuple[float, int]]) -> list[float]:
    """Each value as often as it is counted."""
    return [value for value, count in weighted for _ in range(count)]


@given(st.lists(st.floats(LOWEST, HIGHEST), min_size=1, max_size=200), st.floats(0, 100))
def test_a_percentile_of_the_weighted_values_is_within_a_bucket_of_the_truth(
    values: list[float], p: float
) -> None:
    told, true = (
        interpolated_percentile(sample, p)
        for sample in (spread(recorded(values).weighted_values()), sorted(values))
    )
    assert true / WIDTH <= told <= true * WIDTH or abs(told - true) <= LOWEST


@given(st.lists(st.floats(0, HIGHEST), max_size=200))
def test_their_count_and_sum_are_those_of_what_was_recorded(values: list[float]) -> None:
    weighted = recorded(values).weighted_values()
    assert sum(count for _, count in weighted) == len(values)
    # Values that all lie just above their buckets' lower bounds are told a millionth of the width
    # above them.
    assert sum(value * count for value, count in weighted) == pytest.approx(
        sum(values), rel=1e-6, abs=1e-4
    )


@given(st.lists(st.floats(0, 1e9), max_size=200), st.sampled_from(Distribution.BOUNDS))
def test_as_many_are_above_a_bound_as_there_were(values: list[float], bound: float) -> None:
    weighted = recorded(values).weighted_values()
    assert sum(count for value, count in weighted if value > bound) == sum(
        value > bound for value in values
    )


@given(st.lists(st.floats(0, 1e9), max_size=200))
def test_they_are_different_and_rise(values: list[float]) -> None:
    told = [value for value, _ in recorded(values).weighted_values()]
    assert told == sorted(set(told))
    assert all(0 <= value <= 1_000_000 for value in told)


@given(st.lists(st.floats(0, 1e6), max_size=50), st.lists(st.floats(0, 1e6), max_size=50))
def test_what_was_recorded_since_is_what_came_after(
    before: list[float], after: list[float]
) -> None:
    distribution = recorded(before)
    earlier = distribution.copy()
    for value in after:
        distribution.record(value)
    since = distribution.since(earlier)
    assert since.counts == recorded(after).counts
    assert since.total == pytest.approx(sum(after), rel=1e-9, abs=1e-6)
    assert earlier.counts == recorded(before).counts, "a copy does not move"


def interpolated_percentile(ordered: list[float], p: float) -> float:
    """Linear between the two nearest ranks."""
    rank = (len(ordered) - 1) * p / 100
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (high - low) * (rank - math.floor(rank))


def test_a_value_that_occurred_several_times() -> None:
    once, often = Distribution(), Distribution()
    for _ in range(3):
        once.record(12.0)
    often.record(12.0, 3)
    assert (often.counts, often.total) == (once.counts, once.total)


def test_how_many_are_above_a_bound() -> None:
    recorded = Distribution()
    for value in (1.0, 100.0, 100.1, 2_000_000.0):
        recorded.record(value)
    assert recorded.count_above(100.0) == 2
