"""CloudWatch throttles, is away, hangs or refuses: the minute is kept and sent later, and the
event loop never notices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from aiobotocore.session import AioSession, get_session

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_aws.metric_publication import (
    CLIENT_CONFIG,
    CloudWatchPublisher,
    MetricPublication,
)
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, MetricKind
from tests.integration.monitoring_server import MonitoringServer, monitoring_server
from tests.integration.server_process import free_port

MINUTE = 1_900_000_020
_FRAME_SECONDS = 0.05  # the shortest delivery interval; seen here: 6 ms


def full_metrics() -> Metrics:
    """With every gauge that there is."""
    metrics = Metrics()
    for metric in CATALOGUE:
        if metric.kind is MetricKind.GAUGE and metric is not catalogue.MESSAGES_PER_SECOND:
            metrics.gauge(metric, lambda: 1.0)
    return metrics


@cache
def _sdk() -> AioSession:
    """It reads its descriptions of CloudWatch once."""
    return get_session()


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK tries again at once."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)


@asynccontextmanager
async def client_of(endpoint: str) -> AsyncIterator[Any]:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    async with _sdk().create_client(
        "cloudwatch", region_name="us-east-1", endpoint_url=endpoint, config=CLIENT_CONFIG, **keys
    ) as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[MonitoringServer]:
    async with monitoring_server() as running:
        yield running


async def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.01)


async def until_taken(server: MonitoringServer, minutes: int) -> None:
    await until(lambda: len(server.taken) >= minutes)


def moments(server: MonitoringServer) -> list[float]:
    """The minute of each request taken, seconds since the epoch."""
    return [request["MetricData"][0]["Timestamp"] for request in server.taken]


@pytest.mark.parametrize(
    "failure", [(400, "Throttling"), (500, "InternalFailure"), (503, "ServiceUnavailable")], ids=str
)
async def test_a_minute_that_fails_is_sent_with_the_next_and_has_its_own_time(
    server: MonitoringServer, failure: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(server.endpoint) as client:
        metrics = full_metrics()
        publication = MetricPublication(CloudWatchPublisher(client, "dev"), metrics.snapshot())
        server.failure = failure
        publication.minute_ended(metrics.snapshot(), MINUTE)
        await until(lambda: "1 minutes are kept" in caplog.text)
        assert len(server.encodings) == 3, "the SDK's own attempts"
        server.failure = None
        publication.minute_ended(metrics.snapshot(), MINUTE + 60)
        await until_taken(server, 2)
        assert moments(server) == [MINUTE, MINUTE + 60]
        await publication.close(metrics.snapshot(), MINUTE + 120)
        assert moments(server) == [MINUTE, MINUTE + 60, MINUTE + 120]


async def test_one_that_cannot_be_reached_costs_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of(f"http://127.0.0.1:{free_port()}") as client:
        metrics = full_metrics()
        publication = MetricPublication(CloudWatchPublisher(client, "dev"), metrics.snapshot())
        await publication.close(metrics.snapshot(), MINUTE)
    assert "EndpointConnectionError" in caplog.text
    assert "Traceback" not in caplog.text


async def test_one_that_never_answers_does_not_keep_a_task_from_leaving(
    server: MonitoringServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenflow.stream_aws.metric_publication._CLOSE_SECONDS", 0.5)
    server.answering.clear()
    async with client_of(server.endpoint) as client:
        metrics = full_metrics()
        publication = MetricPublication(CloudWatchPublisher(client, "dev"), metrics.snapshot())
        began = time.monotonic()
        await publication.close(metrics.snapshot(), MINUTE)
        # The rest is for a busy machine; on its own the SDK would try for 15 s.
        assert time.monotonic() - began < 10
    assert "did not answer within 0.5 s" in caplog.text


async def test_what_it_refuses_for_good_does_not_hold_up_the_next(
    server: MonitoringServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(server.endpoint) as client:
        metrics = full_metrics()
        publication = MetricPublication(CloudWatchPublisher(client, "dev"), metrics.snapshot())
        server.failure = (400, "InvalidParameterValue")
        publication.minute_ended(metrics.snapshot(), MINUTE)
        await until(lambda: "they are dropped" in caplog.text)
        server.failure = None
        publication.minute_ended(metrics.snapshot(), MINUTE + 60)
        await until_taken(server, 1)
        assert moments(server) == [MINUTE + 60]


async def test_the_fullest_minute_is_compressed_and_holds_up_the_event_loop_for_less_than_a_frame(
    server: MonitoringServer,
) -> None:
    metrics = full_metrics()
    async with client_of(server.endpoint) as client:
        publication = MetricPublication(CloudWatchPublisher(client, "dev"), metrics.snapshot())
        publication.minute_ended(
            metrics.snapshot(), MINUTE
        )  # the first request also reads the service's description
        await until_taken(server, 1)
        slowest: list[float] = []
        # The machine is shared: a turn may wait for the CPU, which says nothing of what was built.
        while len(slowest) < 3 or (min(slowest) >= _FRAME_SECONDS and len(slowest) < 8):
            minute = len(slowest) + 1
            fill_distributions(metrics)
            turns = asyncio.create_task(slowest_turn_until_taken(server, minute + 1))
            await asyncio.sleep(0)
            publication.minute_ended(metrics.snapshot(), MINUTE + 60 * minute)
            slowest.append(await turns)
        assert min(slowest) < _FRAME_SECONDS
    assert server.encodings[1:] == ["gzip"] * len(slowest)
    for request in server.taken[1:]:
        distributions = [
            len(datum["Values"]) for datum in request["MetricData"] if len(datum["Values"]) > 1
        ]
        assert set(distributions) == {140}


def fill_distributions(metrics: Metrics) -> None:
    """A value in each of their buckets."""
    for metric in CATALOGUE:
        if metric.kind is MetricKind.DISTRIBUTION:
            for bound in metrics.distribution(metric).BOUNDS:
                metrics.distribution(metric).record(bound)


async def slowest_turn_until_taken(server: MonitoringServer, minutes: int) -> float:
    """The longest time between two turns of the event loop, until so many minutes are taken."""
    slowest, last = 0.0, time.perf_counter()
    give_up_at = last + 20
    while len(server.taken) < minutes:
        assert last < give_up_at
        await asyncio.sleep(0)
        now = time.perf_counter()
        slowest, last = max(slowest, now - last), now
    return slowest
