from __future__ import annotations

from typing import Any

import pytest
from botocore.session import Session

from evenflow.stream_aws.metric_publication import CloudWatchPublisher, cloudwatch_unit
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE
from evenflow.stream_core.metrics.metric_snapshot import MetricPoint

MINUTE = 1_900_000_020


class Recorder:
    """Takes the place of the SDK's client and keeps what the SDK was asked to send."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def put_metric_data(self, **request: Any) -> None:
        self.requests.append(request)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("ms", "Milliseconds"),
        ("%", "Percent"),
        ("frames/s", "Count/Second"),
        ("bytes", "Bytes"),
        ("connections", "Count"),
        ("tokens", "Count"),
    ],
)
def test_a_unit_has_its_word_of_cloudwatch(unit: str, expected: str) -> None:
    assert cloudwatch_unit(unit) == expected


def test_cloudwatch_knows_every_unit_and_none_is_a_rate_or_size_called_a_count() -> None:
    known = Session().get_service_model("cloudwatch").shape_for("StandardUnit").enum
    for metric in CATALOGUE:
        unit = cloudwatch_unit(metric.unit)
        assert unit in known
        assert unit != "Count" or metric.unit.isalpha(), metric.name
        assert not metric.name.endswith(("_ms", "_bytes")) or unit in ("Milliseconds", "Bytes"), (
            metric.name
        )


async def test_a_minute_is_one_request_of_the_environment_s_only_dimension() -> None:
    recorder = Recorder()
    points = [
        MetricPoint(catalogue.DELIVERY_JITTER, (4.7, 93.0), (900, 100)),
        MetricPoint(catalogue.LATE_DELTAS, (0.25,), (6_000_000,)),
    ]
    await CloudWatchPublisher(recorder, "prod").publish(points, MINUTE)
    (request,) = recorder.requests
    assert request["Namespace"] == "Evenflow"
    told = [
        (datum["MetricName"], datum["Unit"], tuple(datum["Values"]), tuple(datum["Counts"]))
        for datum in request["MetricData"]
    ]
    assert told == [
        ("ws.delivery_jitter_ms", "Milliseconds", (4.7, 93.0), (900, 100)),
        ("ws.backpressure_drops", "Percent", (0.25,), (6_000_000,)),
    ]
    for datum in request["MetricData"]:
        assert datum["Dimensions"] == [{"Name": "Environment", "Value": "prod"}]
        assert datum["Timestamp"].timestamp() == MINUTE
