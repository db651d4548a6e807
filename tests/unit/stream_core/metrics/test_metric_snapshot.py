from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.instruments import Distribution
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, PUBLISHED, Metric, MetricKind
from evenflow.stream_core.metrics.metric_snapshot import MetricPoint, MetricSnapshot

JITTER, RATIO, COUNTER, LEVEL, EVENTS = (
    catalogue.DELIVERY_JITTER,
    catalogue.LATE_DELTAS,
    catalogue.DELTAS_DELIVERED,
    catalogue.ACTIVE_CONNECTIONS,
    catalogue.MESSAGES_PER_SECOND,
)


def of_kind(kind: MetricKind) -> list[str]:
    return [metric.name for metric in CATALOGUE if metric.kind is kind]


def snapshot(
    jitter: list[float] | None = None,
    ratio: tuple[int, int] = (0, 0),
    counter: int = 0,
    level: float = 0.0,
    events: int = 0,
) -> MetricSnapshot:
    """One of each kind as given, everything else at nought."""
    distributions = {name: Distribution() for name in of_kind(MetricKind.DISTRIBUTION)}
    for value in jitter or []:
        distributions[JITTER.name].record(value)
    levels = dict.fromkeys(of_kind(MetricKind.GAUGE), 0.0) | {LEVEL.name: level}
    del levels[EVENTS.name]
    return MetricSnapshot(
        distributions=distributions,
        counters=dict.fromkeys(of_kind(MetricKind.COUNTER), 0) | {COUNTER.name: counter},
        ratios=dict.fromkeys(of_kind(MetricKind.RATIO), (0, 0)) | {RATIO.name: ratio},
        levels=levels,
        events={EVENTS.name: events},
    )


def point(points: list[MetricPoint], metric: Metric) -> MetricPoint | None:
    return next((point for point in points if point.metric is metric), None)


def test_an_idle_minute_publishes_counters_and_gauges_at_nought_and_no_shares() -> None:
    points = snapshot().points_since(snapshot())
    silent = (MetricKind.DISTRIBUTION, MetricKind.RATIO)
    assert [point.metric for point in points] == [
        metric for metric in PUBLISHED if metric.kind not in silent
    ]
    assert {(point.values, point.counts) for point in points} == {((0.0,), (1,))}


def test_only_what_happened_since_is_published() -> None:
    earlier = snapshot([5.0] * 100, ratio=(50, 100), counter=1_000, level=400, events=9_000)
    later = snapshot(
        [5.0] * 100 + [80.0] * 3, ratio=(51, 500), counter=1_007, level=300, events=9_600
    )
    points = later.points_since(earlier)
    assert point(points, RATIO) == MetricPoint(RATIO, (0.25,), (400,))
    assert point(points, COUNTER) == MetricPoint(COUNTER, (7.0,), (1,))
    assert point(points, LEVEL) == MetricPoint(LEVEL, (300,), (1,))
    assert point(points, EVENTS) == MetricPoint(EVENTS, (10.0,), (1,))
    jitter = point(points, JITTER)
    assert jitter is not None
    assert jitter.values == pytest.approx([80.0])
    assert jitter.counts == (3,)


def test_a_process_that_leaves_has_no_levels_but_tells_what_it_did() -> None:
    points = snapshot(level=0, events=120, counter=2).points_since(
        snapshot(level=500), leaving=True
    )
    assert point(points, LEVEL) is None
    assert point(points, EVENTS) == MetricPoint(EVENTS, (2.0,), (1,))
    assert point(points, COUNTER) == MetricPoint(COUNTER, (2.0,), (1,))
    levels = set(of_kind(MetricKind.GAUGE)) - {EVENTS.name}
    assert {point.metric.name for point in points}.isdisjoint(levels)


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=5))
def test_the_average_over_all_processes_is_the_true_percent(minutes: list[tuple[int, int]]) -> None:
    parts_and_wholes = [(min(pair), max(pair)) for pair in minutes]
    points = [
        told
        for ratio in parts_and_wholes
        if (told := point(snapshot(ratio=ratio).points_since(snapshot()), RATIO))
    ]
    whole = sum(whole for _, whole in parts_and_wholes)
    assert sum(point.counts[0] for point in points) == whole
    if whole:
        average = sum(point.values[0] * point.counts[0] for point in points) / whole
        assert average == pytest.approx(100 * sum(part for part, _ in parts_and_wholes) / whole)


@given(st.lists(st.lists(st.floats(0.1, 1e5), min_size=1, max_size=100), min_size=1, max_size=4))
def test_p95_over_all_processes_is_within_a_bucket_of_the_true_one(
    processes: list[list[float]],
) -> None:
    told: list[float] = []
    for values in processes:
        jitter = point(snapshot(values).points_since(snapshot()), JITTER)
        assert jitter is not None
        told += [
            value
            for value, count in zip(jitter.values, jitter.counts, strict=True)
            for _ in range(count)
        ]
    true = sorted(value for values in processes for value in values)
    rank = math.ceil(0.95 * len(true)) - 1
    assert true[rank] / 1.143 <= sorted(told)[rank] <= true[rank] * 1.143
    assert sum(told) == pytest.approx(sum(true), rel=1e-6)


def test_a_minute_at_a_hundred_thousand_events_a_second_is_as_small_as_any_other() -> None:
    distribution = Distribution()
    distribution.counts = [42_553] * len(
        distribution.counts
    )  # 6 million values in all buckets there are
    distribution.total = 42_553 * (sum(Distribution.BOUNDS) + 1_000_000) * 0.95
    later = snapshot()
    busy = MetricSnapshot(
        dict(later.distributions) | {JITTER.name: distribution},
        later.counters,
        later.ratios,
        later.levels,
        later.events,
    )
    jitter = point(busy.points_since(snapshot()), JITTER)
    assert jitter is not None
    assert len(jitter.values) == len(set(jitter.values)) == 141
    assert sum(jitter.counts) == 42_553 * 141
