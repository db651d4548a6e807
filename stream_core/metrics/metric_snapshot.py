"""The measurements of a process in a minute: counters, ratios and distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evenflow.stream_core.metrics.instruments import Distribution
from evenflow.stream_core.metrics.metric_catalogue import PUBLISHED, Metric, MetricKind

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
