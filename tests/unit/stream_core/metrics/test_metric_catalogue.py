from __future__ import annotations

import re

import pytest

from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, MetricKind

# The table of the design, section 6.
DESIGN = {
    "ws.delivery_jitter_ms": ("p95 < 50 ms", "p95 > 100 ms"),
    "ws.connection_setup_ms": ("p95 < 100 ms", "p95 > 200 ms"),
    "ws.active_connections": ("< 10,000 per node", "> 10,000 per node"),
    "ws.dead_connections_rate": ("< 1 %/min", "> 5 %/min"),
    "ws.messages_per_second": ("watch the trend", "sudden drop > 50 %"),
    "ws.backpressure_drops": ("< 0.1 %", "> 1 %"),
    "fallback.poll_latency_ms": ("p95 < 200 ms", "p95 > 500 ms"),
    "fallback.poll_count_per_response": ("avg < 10", "avg > 20"),
}


@pytest.mark.parametrize("name", DESIGN)
def test_each_metric_of_the_contract_is_there_with_its_target_and_alarm(name: str) -> None:
    metric = next(metric for metric in CATALOGUE if metric.name == name)
    assert metric.alarm is not None
    assert (metric.target, metric.alarm.text) == DESIGN[name]


def test_names_are_unique_also_for_prometheus() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)
    assert len({metric.prometheus_name for metric in CATALOGUE}) == len(CATALOGUE)


def test_a_row_is_complete() -> None:
    for metric in CATALOGUE:
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", metric.name)
        assert re.fullmatch(r"evenflow_[a-z_]+", metric.prometheus_name)
        assert metric.meaning, metric.name
        assert metric.unit, metric.name
        assert (metric.target is None) == (metric.alarm is None), metric.name
        assert metric.name.endswith("_ms") == (metric.unit == "ms"), metric.name
        assert metric.unit == "%" or metric.kind is not MetricKind.RATIO, metric.name
