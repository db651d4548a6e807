"""Metrics with something in each of them."""

from __future__ import annotations

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, MetricKind


def metrics_of(process: int | None) -> Metrics:
    """What a process has measured: of each thing one more than its number."""
    metrics, more = Metrics(process), 1 + (process or 0)
    for metric in CATALOGUE:
        if metric.kind is MetricKind.GAUGE and metric is not catalogue.MESSAGES_PER_SECOND:
            metrics.gauge(metric, lambda: float(more))
    metrics.counter(catalogue.TAKE_OVERS).value = more
    for _ in range(more):
        metrics.distribution(catalogue.DELIVERY_JITTER).record(3.0)
    return metrics
