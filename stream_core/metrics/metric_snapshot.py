"""The measurements of a process in a minute: counters, ratios and distributions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from evenflow.stream_core.metrics.metric_catalogue import PUBLISHED, Metric, MetricKind

# Preferred numbers (ISO 3, series R20), at most 14.3 % apart. They include the round numbers that
# are thresholds, so a percentile from the buckets is on the same side of them as the true one.
_R20 = (
    1.0,
    1.12,
    1.25,
    1.4,
    1.6,
    1.8,
    2.0,
    2.24,
    2.5,
    2.8,
    3.15,
    3.55,
    4.0,
    4.5,
    5.0,
    5.6,
    6.3,
    7.1,
    8.0,
    9.0,
)
# The open bucket above the last bound is taken to be as wide as the next one would be.
_LAST_EDGE = 1_000_000.0
# A bucket does not include its lower bound, so no value may be on it.
_LEAST_FRACTION = 1e-6


class Distribution:
    """Counts values in buckets. The first includes all smaller values, the last all larger ones.

    `bounds[i]` is the inclusive upper bound of `counts[i]`; `counts[-1]` has none. The unit is the
    caller's. There are 141 buckets: CloudWatch accepts 150 values of a metric in a request.
    """

    __slots__ = ("_bounds", "counts", "total")

    BOUNDS: tuple[float, ...] = tuple(
        round(number * scale, 3)
        for scale in (0.1, 1, 10, 100, 1_000, 10_000, 100_000)
        for number in _R20
    )  # 0.1 … 900,000 (at milliseconds: 0.1 ms to a quarter of an hour)

    def __init__(self) -> None:
        self._bounds = self.BOUNDS
        self.counts = [0] * (len(self.BOUNDS) + 1)
        self.total = 0.0

    def record(self, value: float, times: int = 1) -> None:
        """Count a value that occurred `times` times."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """The number of recorded values."""
        return sum(self.counts)

    def count_above(self, bound: float) -> int:
        """The number of values above `bound`, one of `BOUNDS`."""
        return sum(self.counts[self._bounds.index(bound) + 1 :])

    def percentile(self, p: float) -> float:
        """The p-th percentile (0–100), interpolated in its bucket. 0.0 without values."""
        rank = self.count * p / 100
        cumulative = 0
        for count, (low, high) in zip(
            self.counts, pairwise((0.0, *self.BOUNDS, self.BOUNDS[-1])), strict=True
        ):
            if count and cumulative + count >= rank:
                return low + (high - low) * (rank - cumulative) / count
            cumulative += count
        return 0.0

    def copy(self) -> Self:
        """A copy of the counts so far."""
        return self.since(type(self)())

    def since(self, earlier: Distribution) -> Self:
        """The values recorded after `earlier`, an earlier copy of this one."""
        recorded = type(self)()
        recorded.counts = [
            current_count - earlier_count
            for current_count, earlier_count in zip(self.counts, earlier.counts, strict=True)
        ]
        recorded.total = self.total - earlier.total
        return recorded

    def weighted_values(self) -> list[tuple[float, int]]:
        """One value and its count for each bucket that is not empty, rising.

        Each value is at the same fraction of its bucket's width, chosen so that the average is the
        true one. A percentile of them is in the bucket of the true percentile. Values above the
        last bound count as at most 1,000,000.
        """
        edges = pairwise((0.0, *self.BOUNDS, _LAST_EDGE))
        buckets = [
            (low, high, count)
            for (low, high), count in zip(edges, self.counts, strict=True)
            if count
        ]
        if not buckets:
            return []
        least = sum(low * count for low, _, count in buckets)
        width = sum((high - low) * count for low, high, count in buckets)
        fraction = min(max((self.total - least) / width, _LEAST_FRACTION), 1.0)
        return [(min(low + (high - low) * fraction, high), count) for low, high, count in buckets]


_SECONDS = 60


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One metric of one process in one minute: `values[i]`, in the metric's unit, occurred
    `counts[i]` times.
    """

    metric: Metric
    values: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MetricSnapshot:
    """The measurements of a process since its start. Each mapping is by the metric's name.

    Args:
        ratios: the part and the whole.
        levels: the gauges as they are now.
        events: counts for the gauges that are a mean per second over the minute.
    """

    distributions: Mapping[str, Distribution]
    counters: Mapping[str, int]
    ratios: Mapping[str, tuple[int, int]]
    levels: Mapping[str, float]
    events: Mapping[str, int]

    def points_since(self, earlier: MetricSnapshot, *, leaving: bool = False) -> list[MetricPoint]:
        """The values of the minute between `earlier` and this, in the catalogue's order.

        A distribution is its buckets. A ratio is its percent, counted as often as its whole. Both
        are left out when they counted nothing. A counter is its increase, zero included.

        An event per second is always one event in sixty, also if the process began or ended within
        the minute. So the sum over processes is right.

        Args:
            leaving: whether the process ends within this minute. Its levels are left out then: they
                would lower the average of the processes that stay.
        """
        return [
            MetricPoint(metric, tuple(values), tuple(counts))
            for metric in PUBLISHED
            if (weighted := list(self._weighted_values(metric, earlier, leaving)))
            for values, counts in [zip(*weighted, strict=True)]
        ]

    def _weighted_values(
        self, metric: Metric, earlier: MetricSnapshot, leaving: bool
    ) -> Iterator[tuple[float, int]]:
        name = metric.name
        if metric.kind is MetricKind.DISTRIBUTION:
            yield from self.distributions[name].since(earlier.distributions[name]).weighted_values()
        elif metric.kind is MetricKind.COUNTER:
            yield float(self.counters[name] - earlier.counters[name]), 1
        elif metric.kind is MetricKind.RATIO:
            part, whole = (
                current_count - earlier_count
                for current_count, earlier_count in zip(
                    self.ratios[name], earlier.ratios[name], strict=True
                )
            )
            if whole:
                yield 100.0 * part / whole, whole
        elif name in self.events:
            yield (self.events[name] - earlier.events[name]) / _SECONDS, 1
        elif not leaving:
            yield self.levels[name], 1
