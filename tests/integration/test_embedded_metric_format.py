"""The reader of log lines that stands for CloudWatch Logs, and what the poll function writes."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.embedded_metric_format import NothingExtracted, put_metric_data_requests
from tests.integration.poll_function_log import PollFunctionLog

MOMENT = int(time.time())


def line(dimensions: list[list[str]], metrics: list[dict[str, Any]], **root: Any) -> str:
    directive = {"Namespace": "Evenflow", "Dimensions": dimensions, "Metrics": metrics}
    return json.dumps(
        {"_aws": {"Timestamp": MOMENT * 1000, "CloudWatchMetrics": [directive]}} | root
    )


def test_the_poll_function_s_line_has_the_environment_for_its_only_dimension() -> None:
    """Powertools adds `service` by itself where it may, and POWERTOOLS_SERVICE_NAME is set."""
    (request,) = put_metric_data_requests(PollFunctionLog("dev").of(MOMENT, late_ms=12.5, polls=3))
    common = {
        "Dimensions": [{"Name": "Environment", "Value": "dev"}],
        "Timestamp": datetime.fromtimestamp(MOMENT, UTC),
        "Counts": [1],
    }
    assert request == {
        "Namespace": "Evenflow",
        "MetricData": [
            {"MetricName": "fallback.poll_latency_ms", "Unit": "Milliseconds", "Values": [12.5]}
            | common,
            {"MetricName": "fallback.poll_count_per_response", "Unit": "Count", "Values": [3.0]}
            | common,
        ],
    }


def test_values_are_counted() -> None:
    (request,) = put_metric_data_requests(line([], [{"Name": "m"}], m=[3, 2, 3]))
    assert [(datum["Values"], datum["Counts"]) for datum in request["MetricData"]] == [
        ([3.0, 2.0], [2, 1])
    ]


def test_each_dimension_set_is_a_metric_of_its_own() -> None:
    (request,) = put_metric_data_requests(
        line([["a"], ["a", "b"], []], [{"Name": "m"}], a="1", b="2", m=5)
    )
    assert [datum["Dimensions"] for datum in request["MetricData"]] == [
        [{"Name": "a", "Value": "1"}],
        [{"Name": "a", "Value": "1"}, {"Name": "b", "Value": "2"}],
        [],
    ]
    assert {datum["Unit"] for datum in request["MetricData"]} == {"None"}


@pytest.mark.parametrize(
    ("log_line", "rule"),
    [
        ("12.5 ms", "not JSON"),
        ("[]", "no object `_aws`"),
        ("{}", "no object `_aws`"),
        ('{"_aws": {"CloudWatchMetrics": []}}', "Timestamp"),
        ('{"_aws": {"Timestamp": 1}}', "CloudWatchMetrics"),
        (line([["a"]], [{"Name": "m"}], m=1), "dimension `a`"),
        (line([["a"]], [{"Name": "m"}], m=1, a=7), "dimension `a`"),
        (line([], [{"Name": "m"}]), "no member of the root"),
        (line([], [{"Name": "m"}], m="1"), "not a number"),
        (line([], [{"Name": "m"}], m=[1] * 101), "up to 100"),
        (line([], [{"Name": f"m{n}"} for n in range(101)], m=1), "at most 100"),
    ],
)
def test_what_breaks_the_format_is_no_metric(log_line: str, rule: str) -> None:
    with pytest.raises(NothingExtracted, match=rule):
        put_metric_data_requests(log_line)
