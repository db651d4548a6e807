"""The metrics of this process, by the catalogue, and its Prometheus page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, chain
from typing import TypeVar

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from evenflow import __version__, is_compiled
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.instruments import (
    Counter,
    Distribution,
    DividedDistribution,
    LabelledCounter,
    Ratio,
)
from evenflow.stream_core.metrics.metric_catalogue import Metric, MetricKind
from evenflow.stream_core.metrics.metric_snapshot import MetricSnapshot

_T = TypeVar("_T")


class Metrics:
    """One object for each metric of the catalogue. Gauges are read for each page and snapshot.

    Args:
        process: the label `process` of every sample on the page, where there are several.
    """

    def __init__(self, process: int | None = None) -> None:
        self._process = process
        self._divided = {
            metric.name: DividedDistribution()
            for metric in _of_kind(MetricKind.DISTRIBUTION)
            if metric.labels
        }
        self._distributions: dict[str, Distribution] = {
            **_each(MetricKind.DISTRIBUTION, Distribution),
            **self._divided,
        }
        self._labelled = {
            metric.name: LabelledCounter(metric.labels)
            for metric in _of_kind(MetricKind.COUNTER)
            if metric.labels
        }
        self._counters: dict[str, Counter] = {
            **_each(MetricKind.COUNTER, Counter),
            **self._labelled,
        }
        self._ratios = _each(MetricKind.RATIO, Ratio)
        self._gauges: dict[str, Callable[[], float]] = {}
        self.frames_sent = Counter()
        self._frames_then = 0
        self._minute_began: float | None = None
        self._frames_per_second = 0.0
        self.gauge(catalogue.MESSAGES_PER_SECOND, lambda: self._frames_per_second)

    def distribution(self, metric: Metric) -> Distribution:
        """The distribution of `metric`, to record values in."""
        return self._distributions[metric.name]

    def divided(self, metric: Metric) -> DividedDistribution:
        """The distribution of `metric`, which has a label."""
        return self._divided[metric.name]

    def counter(self, metric: Metric) -> Counter:
        """The counter of `metric`."""
        return self._counters[metric.name]

    def labelled(self, metric: Metric) -> LabelledCounter:
        """The counter of `metric`, which has labels."""
        return self._labelled[metric.name]

    def ratio(self, metric: Metric) -> Ratio:
        """The two counts of `metric`."""
        return self._ratios[metric.name]

    def gauge(self, metric: Metric, read: Callable[[], float]) -> None:
        """Set the function that returns the value of `metric`."""
        self._gauges[metric.name] = read

    def end_minute(self, now: float) -> None:
        """End a minute. `now` is in seconds on a monotonic clock."""
        self._count_uneven()
        for ratio in self._ratios.values():
            ratio.end_minute()
        if self._minute_began is not None and now > self._minute_began:
            self._frames_per_second = (self.frames_sent.value - self._frames_then) / (
                now - self._minute_began
            )
        self._frames_then, self._minute_began = self.frames_sent.value, now

    def _count_uneven(self) -> None:
        """Take what is uneven from the jitter's buckets, so that it costs nothing a delta."""
        jitter, uneven = self.distribution(catalogue.DELIVERY_JITTER), catalogue.UNEVEN_RATE
        ratio = self.ratio(uneven)
        ratio.part, ratio.whole = jitter.count_above(catalogue.UNEVEN_MS), jitter.count

    def snapshot(self) -> MetricSnapshot:
        """A copy of everything measured so far."""
        self._count_uneven()
        by_the_second = catalogue.MESSAGES_PER_SECOND.name
        return MetricSnapshot(
            distributions={
                name: distribution.copy() for name, distribution in self._distributions.items()
            },
            counters={name: counter.value for name, counter in self._counters.items()},
            ratios={name: (ratio.part, ratio.whole) for name, ratio in self._ratios.items()},
            levels={name: read() for name, read in self._gauges.items() if name != by_the_second},
            events={by_the_second: self.frames_sent.value},
        )

    def prometheus_page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_CatalogueCollector(self, self._process))
        return generate_latest(registry)

    def families(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Each metric as a Prometheus family. A ratio is its percent and its two counters."""
        self._count_uneven()
        for metric in catalogue.CATALOGUE:
            name, text = metric.prometheus_name, f"{metric.meaning} ({metric.unit})"
            if metric.kind is MetricKind.DISTRIBUTION:
                divided = self._divided.get(metric.name)
                parts = {"": self.distribution(metric)} if divided is None else divided.by_label
                yield _histogram(name, text, metric.labels, parts)
            elif metric.labels:
                yield _by_labels(name, text, metric.labels, self.labelled(metric))
            elif metric.kind is MetricKind.COUNTER:
                yield CounterMetricFamily(name, text, value=self.counter(metric).value)
            elif metric.kind is MetricKind.RATIO:
                ratio = self.ratio(metric)
                yield GaugeMetricFamily(name, text, value=ratio.percent)
                yield CounterMetricFamily(f"{name}_part", text, value=ratio.part)
                yield CounterMetricFamily(f"{name}_whole", text, value=ratio.whole)
            else:
                yield GaugeMetricFamily(name, text, value=self._gauges[metric.name]())


class _CatalogueCollector(Collector):
    def __init__(self, metrics: Metrics, process: int | None) -> None:
        self._metrics = metrics
        self._label = {} if process is None else {"process": str(process)}
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterable[PrometheusMetric]:
        for family in chain(self._metrics.families(), [_build_info()], self._process.collect()):
            if self._label:
                family.samples = [
                    sample._replace(labels={**sample.labels, **self._label})
                    for sample in family.samples
                ]
            yield family


def _build_info() -> GaugeMetricFamily:
    """The version and form of this program, as labels of a 1."""
    info = GaugeMetricFamily("evenflow_build_info", "what runs here", labels=("version", "form"))
    info.add_metric((__version__, "compiled" if is_compiled() else "interpreted"), 1)
    return info


def _of_kind(kind: MetricKind) -> Iterable[Metric]:
    return (metric for metric in catalogue.CATALOGUE if metric.kind is kind)


def _each(kind: MetricKind, make: Callable[[], _T]) -> dict[str, _T]:
    return {metric.name: make() for metric in _of_kind(kind)}


def _by_labels(
    name: str, text: str, labels: tuple[str, ...], counter: LabelledCounter
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(counter.by_labels.items()):
        family.add_metric(values, count)
    return family


def _histogram(
    name: str, text: str, labels: tuple[str, ...], parts: Mapping[str, Distribution]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=labels)
    bounds = (*map(str, Distribution.BOUNDS), "+Inf")
    for value, part in sorted(parts.items()):
        buckets = list(zip(bounds, accumulate(part.counts), strict=True))
        family.add_metric([value] if labels else [], buckets, part.total)
    return family
