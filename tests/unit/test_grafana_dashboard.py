"""The Grafana dashboard, as it is written. tests/integration asks a real Prometheus its queries."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

from docs.grafana_dashboard import grafana_dashboard
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, MetricKind

BOARD: dict[str, Any] = json.loads(grafana_dashboard())
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
_OF_KIND = {
    MetricKind.DISTRIBUTION: {"_bucket"},
    MetricKind.COUNTER: {"_total"},
    MetricKind.RATIO: {"_part_total", "_whole_total"},
    MetricKind.GAUGE: {""},
}


def named(panel: dict[str, Any]) -> set[str]:
    """The metrics in the queries of a panel."""
    return {
        name
        for target in panel["targets"]
        for name in re.findall(r"\bevenflow_\w+", target["expr"])
    }


def test_every_metric_has_one_panel_whose_queries_name_it_and_nothing_else() -> None:
    for metric in CATALOGUE:
        [panel] = [it for it in PANELS if it["title"].split(" ")[0] == metric.name]
        assert named(panel) == {metric.prometheus_name + end for end in _OF_KIND[metric.kind]}


def test_there_is_a_panel_for_nothing_else() -> None:
    assert len(PANELS) == len(CATALOGUE)


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_the_threshold_of_an_alarm_is_drawn() -> None:
    [panel] = [panel for panel in PANELS if panel["title"].startswith("ws.delivery_jitter_ms")]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, 100]
