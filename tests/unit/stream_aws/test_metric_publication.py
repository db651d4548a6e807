from __future__ import annotations

import asyncio
import logging

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_aws.metric_publication import MetricPublication
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_snapshot import MetricPoint

MINUTE = 1_900_000_020  # a whole one


class ScriptedPublisher:
    """Takes minutes while `failure` is None; `gate` holds them up until it is set."""

    def __init__(self) -> None:
        self.taken: dict[int, list[MetricPoint]] = {}
        self.asked: list[int] = []
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def publish(self, points: list[MetricPoint], minute: int) -> None:
        self.asked.append(minute)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        assert minute not in self.taken, "a minute is published once"
        self.taken[minute] = points

    def increase(self, minute: int) -> float:
        """Of the counter that the tests use."""
        return next(
            point.values[0]
            for point in self.taken[minute]
            if point.metric is catalogue.DELTAS_DELIVERED
        )


class Task:
    """What a handler has: metrics, and their publication."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        for metric in catalogue.CATALOGUE:
            if (
                metric.kind is catalogue.MetricKind.GAUGE
                and metric is not catalogue.MESSAGES_PER_SECOND
            ):
                self.metrics.gauge(metric, lambda: 7.0)
        self.publisher = ScriptedPublisher()
        self.publication = MetricPublication(self.publisher, self.metrics.snapshot())

    def minute(self, number: int, deltas: int) -> int:
        """End one in which so many deltas were delivered; returns when it began."""
        self.metrics.counter(catalogue.DELTAS_DELIVERED).value += deltas
        began = MINUTE + 60 * number
        self.publication.minute_ended(self.metrics.snapshot(), began)
        return began


def throttled() -> ClientError:
    return ClientError(
        {"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}, "PutMetricData"
    )


def refused() -> ClientError:
    return ClientError(
        {"Error": {"Code": "InvalidParameterValue", "Message": "NaN"}}, "PutMetricData"
    )


async def settle() -> None:
    """Let the sender go on until it waits for something."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_each_minute_is_published_once_with_what_happened_in_it() -> None:
    task = Task()
    began = [task.minute(number, deltas) for number, deltas in enumerate((3, 0, 5))]
    await settle()
    assert list(task.publisher.taken) == began
    assert [task.publisher.increase(minute) for minute in began] == [3, 0, 5]


async def test_what_was_measured_before_the_first_minute_is_not_in_it() -> None:
    metrics, publisher = Task().metrics, ScriptedPublisher()
    metrics.counter(catalogue.DELTAS_DELIVERED).value = 100
    publication = MetricPublication(publisher, metrics.snapshot())
    publication.minute_ended(metrics.snapshot(), MINUTE)
    await settle()
    assert publisher.increase(MINUTE) == 0


@pytest.mark.parametrize(
    "failure",
    [throttled(), EndpointConnectionError(endpoint_url="https://monitoring"), OSError("reset")],
    ids=str,
)
async def test_what_could_not_be_sent_goes_out_later_in_order_with_its_own_minute(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    task = Task()
    task.publisher.failure = failure
    began = []
    for number in range(3):
        began.append(task.minute(number, deltas=number + 1))
        await settle()
    assert task.publisher.taken == {}
    assert "3 minutes are kept" in caplog.text
    task.publisher.failure = None
    began.append(task.minute(3, deltas=4))
    await settle()
    assert list(task.publisher.taken) == began
    assert [task.publisher.increase(minute) for minute in began] == [1, 2, 3, 4]


async def test_fifteen_minutes_are_kept_and_the_log_says_which_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Task()
    task.publisher.failure = throttled()
    began = []
    for number in range(17):
        began.append(task.minute(number, deltas=1))
        await settle()
    dropped = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(dropped) == 2
    assert "15 min" in dropped[0]
    task.publisher.failure = None
    began.append(task.minute(17, deltas=1))
    await settle()
    assert list(task.publisher.taken) == began[3:]


async def test_a_minute_that_is_wrong_in_itself_does_not_hold_up_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Task()
    task.publisher.failure = refused()
    task.minute(0, deltas=1)
    await settle()
    task.publisher.failure = None
    second = task.minute(1, deltas=2)
    await settle()
    assert list(task.publisher.taken) == [second]
    assert "refused the metrics of 17:47 UTC" in caplog.text


async def test_minutes_that_end_while_one_is_being_sent_wait_for_it() -> None:
    task = Task()
    task.publisher.gate.clear()
    began = [task.minute(number, deltas=number) for number in range(3)]
    await settle()
    assert task.publisher.asked == began[:1], "one request at a time"
    task.publisher.gate.set()
    await settle()
    assert list(task.publisher.taken) == began


async def test_closing_publishes_the_minute_that_has_begun_without_levels() -> None:
    task = Task()
    first = task.minute(0, deltas=1)
    task.metrics.counter(catalogue.DELTAS_DELIVERED).value += 9
    await task.publication.close(task.metrics.snapshot(), first + 60)
    assert list(task.publisher.taken) == [first, first + 60]
    assert task.publisher.increase(first + 60) == 9
    assert catalogue.ACTIVE_CONNECTIONS not in [
        point.metric for point in task.publisher.taken[first + 60]
    ]


async def test_closing_tries_once_more_what_was_kept() -> None:
    task = Task()
    task.publisher.failure = throttled()
    first = task.minute(0, deltas=1)
    await settle()
    task.publisher.failure = None
    await task.publication.close(task.metrics.snapshot(), first + 60)
    assert list(task.publisher.taken) == [first, first + 60]


async def test_closing_while_nothing_answers_ends_and_says_what_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("evenflow.stream_aws.metric_publication._CLOSE_SECONDS", 0.05)
    task = Task()
    task.publisher.gate.clear()
    first = task.minute(0, deltas=1)
    await task.publication.close(task.metrics.snapshot(), first + 60)
    assert "did not answer within 0.05 s" in caplog.text
    assert "1 minutes of metrics are lost" in caplog.text


async def test_closing_while_it_fails_ends_and_says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Task()
    task.publisher.failure = throttled()
    await task.publication.close(task.metrics.snapshot(), MINUTE)
    assert "1 minutes of metrics are lost" in caplog.text
