"""The Grafana dashboard of the catalogue: a panel for each metric of `/metrics`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, Metric, MetricKind

# A metric belongs to the first row with a prefix of its name.
_ROWS = (
    ("Load", ("node.", "clock.", "memory.", "http.event_streams", "http.waiting_polls")),
    ("Answers", ("model.", "responses.", "generations.", "tokens.", "upstream.", "filter.")),
    ("Queue and refusals", ("queue.", "messages.", "http.")),
    ("Delivery", ("ws.delivery", "ws.uneven", "ws.messages", "ws.backpressure", "deltas.")),
    ("Connections", ("ws.", "connections.", "readers.", "fallback.")),
    ("Store, take-over and leaving", ("store.", "lease.", "drain.", "conversations.", "log.")),
)
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_UNITS = {"ms": "ms", "s": "s", "%": "percent", "bytes": "bytes"}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN = '{instance=~"$instance"}'
_EVENTS_IN = "[$__rate_interval]"


def grafana_dashboard() -> str:
    """The dashboard as Grafana imports it."""
    board = {
        "title": "Evenflow",
        "uid": "evenflow",
        "description": "Written by `make docs` from the metric catalogue: change it there.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_data_source(), _instance()]},
        "panels": list(_panels()),
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, metrics in _rows().items():
        number += 1
        place = {"h": 1, "w": _COLUMNS * _WIDTH, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": title, "gridPos": place, "panels": []}
        for at, metric in enumerate(metrics):
            number += 1
            row, column = divmod(at, _COLUMNS)
            y = top + 1 + row * _HEIGHT
            place = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": y}
            yield _panel(metric, number, place)
        top += 1 + -(-len(metrics) // _COLUMNS) * _HEIGHT


def _rows() -> dict[str, list[Metric]]:
    rows: dict[str, list[Metric]] = {title: [] for title, _ in _ROWS}
    for metric in CATALOGUE:
        title = next(title for title, prefixes in _ROWS if metric.name.startswith(prefixes))
        rows[title].append(metric)
    return rows


def _panel(metric: Metric, number: int, place: dict[str, int]) -> dict[str, Any]:
    counted = metric.kind is MetricKind.COUNTER
    defaults: dict[str, Any] = {"unit": "cps" if counted else _UNITS.get(metric.unit, "short")}
    defaults |= {"min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}
    alarm = metric.alarm
    if alarm is not None and not counted and not alarm.sudden_drop:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": alarm.above}]
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}}
        defaults["custom"] |= {"thresholdsStyle": {"mode": "line"}}
    return {
        "id": number,
        "type": "timeseries",
        "title": f"{metric.name} ({metric.target})" if metric.target else metric.name,
        "description": f"{metric.meaning} ({metric.unit})",
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
            for at, (legend, query) in enumerate(_queries(metric).items())
        ],
    }


def _queries(metric: Metric) -> dict[str, str]:
    """The queries of a metric by their legends."""
    name = metric.prometheus_name
    match metric.kind:
        case MetricKind.DISTRIBUTION:
            buckets = f"sum by (le) (rate({name}_bucket{_CHOSEN}{_EVENTS_IN}))"
            return {
                legend: f"histogram_quantile({share}, {buckets})"
                for legend, share in _PERCENTILES.items()
            }
        case MetricKind.RATIO:
            part, whole = (
                f"sum(rate({name}_{which}_total{_CHOSEN}{_EVENTS_IN}))"
                for which in ("part", "whole")
            )
            return {"percent": f"100 * {part} / {whole}"}
        case MetricKind.COUNTER if metric.labels:
            by = ", ".join(metric.labels)
            legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
            return {legend: f"sum by ({by}) (rate({name}_total{_CHOSEN}{_EVENTS_IN}))"}
        case MetricKind.COUNTER:
            return {"a second": f"sum(rate({name}_total{_CHOSEN}{_EVENTS_IN}))"}
        case MetricKind.GAUGE if metric.unit in ("ms", "%"):
            return {"average": f"avg({name}{_CHOSEN})", "most": f"max({name}{_CHOSEN})"}
        case MetricKind.GAUGE:
            return {"all": f"sum({name}{_CHOSEN})", "most": f"max({name}{_CHOSEN})"}


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource"} | {
        "query": "prometheus"
    }


def _instance() -> dict[str, Any]:
    values = "label_values(evenflow_node_load_percent, instance)"
    return {
        "name": "instance",
        "label": "Instance",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": values, "refId": "instances"},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
    }
