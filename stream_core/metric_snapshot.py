"""What a process has measured until a moment, and what it has to publish about the time between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stream_core.distribution import Distribution
from stream_core.metric_catalogue import CATALOGUE, Metric, MetricKind

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One metric of one process in one minute: `values[i]`, in the metric's unit, occurred `counts[i]` times."""

    metric: Metric
    values: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MetricSnapshot:
    """What a process has measured since its start; each by the metric's name.

    Args:
        ratios: the part and the whole.
        levels: the gauges as they stand.
        events: events counted for those gauges that are a mean a second over the minute.
    """

    distributions: Mapping[str, Distribution]
    counters: Mapping[str, int]
    ratios: Mapping[str, tuple[int, int]]
    levels: Mapping[str, float]
    events: Mapping[str, int]

    def points_since(self, earlier: MetricSnapshot, *, leaving: bool = False) -> list[MetricPoint]:
        """What to publish about the minute between `earlier` and this, in the catalogue's order.

        A distribution is its buckets and a ratio its percent, as often as there was something whole; both are left out
        when there was nothing. A counter is its increase, nought included.

        An event a second is always an event in sixty, also where the process began or left within the minute: so the sum
        over processes is right whoever came or went.

        Args:
            leaving: the process ends within this minute. Its levels are left out: a process that is gone has none, and
                its noughts would pull the average of those that stay.
        """
        return [
            MetricPoint(metric, tuple(values), tuple(counts))
            for metric in CATALOGUE
            if (weighted := list(self._weighted_values(metric, earlier, leaving)))
            for values, counts in [zip(*weighted, strict=True)]
        ]

    def _weighted_values(self, metric: Metric, earlier: MetricSnapshot, leaving: bool) -> Iterator[tuple[float, int]]:
        name = metric.name
        if metric.kind is MetricKind.DISTRIBUTION:
            yield from self.distributions[name].since(earlier.distributions[name]).weighted_values()
        elif metric.kind is MetricKind.COUNTER:
            yield float(self.counters[name] - earlier.counters[name]), 1
        elif metric.kind is MetricKind.RATIO:
            part, whole = (now - then for now, then in zip(self.ratios[name], earlier.ratios[name], strict=True))
            if whole:
                yield 100.0 * part / whole, whole
        elif name in self.events:
            yield (self.events[name] - earlier.events[name]) / _SECONDS, 1
        elif not leaving:
            yield self.levels[name], 1
