"""What the tasks and functions of one environment publish in a window of minutes, and what alarms
see of it.

The handler's metrics go their whole way: a real `Metrics`, its snapshots, the real SDK, the
emulator. The poll function's are log lines, which no emulator makes metrics of;
`embedded_metric_format` does.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from aiobotocore.session import AioSession, get_session

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_aws.metric_publication import CloudWatchPublisher
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, Metric, MetricKind
from evenflow.stream_core.metrics.metric_snapshot import MetricSnapshot
from tests.infrastructure.metric_math import Series
from tests.integration.alarm_evaluation import Selection, is_raised, selections
from tests.integration.aws_emulator import SIGNED_BY
from tests.integration.cloudwatch_emulator import cloudwatch_emulator
from tests.integration.embedded_metric_format import put_metric_data_requests
from tests.integration.poll_function_log import PollFunctionLog

ENVIRONMENT = "dev"
PREFIX = f"evenflow-{ENVIRONMENT}"
"""What the environment's metrics and alarms are told apart by."""
# Two of the longest period of an alarm.
WINDOW_MINUTES = 10
FROM_FUNCTIONS = (catalogue.POLL_LATENCY, catalogue.POLL_COUNT)

Alarms = Mapping[str, Mapping[str, Any]]
"""Properties of alarms in a CloudFormation template, by their names."""


class HandlerTask:
    """One task's metrics, of which each minute is published.

    Args:
        measuring: those of a handler, or of a part of one. Gauges that it does not register are the
            test's to set.
    """

    def __init__(self, measuring: Metrics | None = None) -> None:
        self.metrics = measuring or Metrics()
        self.levels = {metric.name: 0.0 for metric in CATALOGUE if metric.kind is MetricKind.GAUGE}
        registered = {*self.metrics.snapshot().levels, catalogue.MESSAGES_PER_SECOND.name}
        for metric in CATALOGUE:
            if metric.kind is MetricKind.GAUGE and metric.name not in registered:
                self.metrics.gauge(metric, partial(self.levels.__getitem__, metric.name))
        self.published: MetricSnapshot = self.metrics.snapshot()


@cache
def _sdk() -> AioSession:
    """It reads its descriptions of CloudWatch once."""
    return get_session()


@asynccontextmanager
async def published() -> AsyncIterator[Service]:
    """A service with a CloudWatch of its own, in which nothing is yet."""
    async with (
        cloudwatch_emulator() as endpoint,
        _sdk().create_client("cloudwatch", endpoint_url=endpoint, **SIGNED_BY) as client,
    ):
        yield Service(client)


class Service:
    """Everything that publishes for one environment, and a window of minutes that have passed."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.publisher = CloudWatchPublisher(client, PREFIX)
        # Behind the window nothing is, and it ends before now.
        self.begins = (int(time.time()) // 300 - 3) * 300

    async def publish(self, task: HandlerTask, minute: int, *, leaving: bool = False) -> None:
        """What a task does at the end of a minute of the window."""
        snapshot = task.metrics.snapshot()
        points = snapshot.points_since(task.published, leaving=leaving)
        task.published = snapshot
        await self.publisher.publish(points, self.begins + 60 * minute)

    async def poll(self, metric: Metric, values: Sequence[float], minute: int) -> None:
        """What CloudWatch stores of the log of the poll function when it measures these."""
        moment, counts = self.begins + 60 * minute, metric is catalogue.POLL_COUNT
        lines = (
            _poll_log().of(
                moment, late_ms=0 if counts else value, polls=int(value) if counts else None
            )
            for value in values
        )
        requests = [request for line in lines for request in put_metric_data_requests(line)]
        (namespace,) = {request["Namespace"] for request in requests}
        # At once: CloudWatch adds what it is given.
        data = [datum for request in requests for datum in request["MetricData"]]
        await self.client.put_metric_data(Namespace=namespace, MetricData=data)

    async def series(self, selection: Selection) -> Series:
        """What an alarm sees of the window, by its own periods."""
        return (await self._all_series([selection]))[selection]

    async def _all_series(self, wanted: Sequence[Selection]) -> dict[Selection, Series]:
        answer = await self.client.get_metric_data(
            StartTime=datetime.fromtimestamp(self.begins, UTC),
            EndTime=datetime.fromtimestamp(self.begins + 60 * WINDOW_MINUTES, UTC),
            MetricDataQueries=[
                _query(f"q{place}", selection) for place, selection in enumerate(wanted)
            ],
        )
        results = answer["MetricDataResults"]
        assert [result["Id"] for result in results] == [f"q{place}" for place in range(len(wanted))]
        return {
            selection: self._in_order(result, selection.period)
            for selection, result in zip(wanted, results, strict=True)
        }

    def _in_order(self, result: Mapping[str, Any], period: int) -> Series:
        seen = {
            int(moment.timestamp()): value
            for moment, value in zip(result["Timestamps"], result["Values"], strict=True)
        }
        return [seen.get(self.begins + at) for at in range(0, 60 * WINDOW_MINUTES, period)]

    async def last_periods(self, alarm: Mapping[str, Any], end: float) -> dict[str, Series]:
        """The last period before `end` of each series that an alarm takes, by its id."""
        last: dict[str, Series] = {}
        for name, selection in selections(alarm).items():
            answer = await self.client.get_metric_data(
                StartTime=datetime.fromtimestamp(end - selection.period, UTC),
                EndTime=datetime.fromtimestamp(end, UTC),
                MetricDataQueries=[_query("q", selection)],
            )
            values = answer["MetricDataResults"][0]["Values"]
            assert len(values) <= 1, "the period begins where the emulator's does"
            last[name] = values or [None]
        return last

    async def units(self, selection: Selection) -> set[str]:
        """The units that were stored with the metric."""
        answer = await self.client.get_metric_statistics(
            Namespace=selection.namespace,
            MetricName=selection.name,
            Dimensions=[{"Name": name, "Value": value} for name, value in selection.dimensions],
            StartTime=datetime.fromtimestamp(self.begins, UTC),
            EndTime=datetime.fromtimestamp(self.begins + 60 * WINDOW_MINUTES, UTC),
            Period=60,
            Statistics=["SampleCount"],
        )
        return {datapoint["Unit"] for datapoint in answer["Datapoints"]}

    async def raised(self, alarms: Alarms) -> set[str]:
        """The names of those that are raised at the end of the window."""
        wanted = {name: selections(alarm) for name, alarm in alarms.items()}
        seen = await self._all_series(
            list({each for of in wanted.values() for each in of.values()})
        )
        return {
            name
            for name, alarm in alarms.items()
            if is_raised(alarm, {key: seen[selection] for key, selection in wanted[name].items()})
        }


def _query(name: str, selection: Selection) -> dict[str, Any]:
    metric = {
        "Namespace": selection.namespace,
        "MetricName": selection.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in selection.dimensions],
    }
    stat = {"Metric": metric, "Stat": selection.statistic, "Period": selection.period}
    return {"Id": name, "MetricStat": stat}


@cache
def _poll_log() -> PollFunctionLog:
    return PollFunctionLog(PREFIX)
