"""Publishes metrics to CloudWatch every minute."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError

from evenflow.stream_core.metrics.metric_snapshot import MetricPoint, MetricSnapshot

NAMESPACE = "Evenflow"
DIMENSION = "Environment"
"""The only dimension. An alarm sees the whole environment, and a metric is paid for once."""

CLIENT_CONFIG = AioConfig(
    # All attempts together end well before the next minute does.
    connect_timeout=3,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
)
"""The settings for `create_client("cloudwatch", …)`."""

_UNITS = {"ms": "Milliseconds", "%": "Percent", "frames/s": "Count/Second", "bytes": "Bytes"}


def cloudwatch_unit(unit: str) -> str:
    """CloudWatch's name for a unit of the catalogue. Anything that is counted is `Count`."""
    return _UNITS.get(unit, "Count")


class CloudWatchPublisher:
    """Publishes the metrics of one environment.

    Args:
        client: an aiobotocore client of `cloudwatch`. The caller closes it.
        environment: the value of the dimension, for example `dev` or `prod`.
    """

    def __init__(self, client: Any, environment: str) -> None:
        self._client = client
        self._dimensions = [{"Name": DIMENSION, "Value": environment}]

    async def publish(self, points: Sequence[MetricPoint], minute: int) -> None:
        """Send the points of the minute that began at `minute` (seconds since the epoch).

        The catalogue is far below a request's limits of 1,000 metrics and 150 values each. A minute
        that is sent twice counts twice, since CloudWatch adds.

        Raises:
            botocore.exceptions.ClientError: CloudWatch throttled or refused it.
            botocore.exceptions.BotoCoreError: it can't be reached, or there are no credentials.
        """
        timestamp = datetime.fromtimestamp(minute, UTC)
        await self._client.put_metric_data(
            Namespace=NAMESPACE,
            MetricData=[
                {
                    "MetricName": point.metric.name,
                    "Dimensions": self._dimensions,
                    "Timestamp": timestamp,
                    "Unit": cloudwatch_unit(point.metric.unit),
                    "Values": point.values,
                    "Counts": point.counts,
                }
                for point in points
            ],
        )


_logger = logging.getLogger(__name__)

# CloudWatch takes data up to two weeks old, but by then alarms have long decided.
_MINUTES_KEPT = 15
# For the last minute of a leaving task: what drain and store leave of the 120 s that Fargate gives.
_CLOSE_SECONDS = 3.0
# The request itself is wrong, so a retry would fail too.
_PERMANENT = ("InvalidParameter", "Missing", "Validation", "Serialization")


class Publisher(Protocol):
    """Sends the points of the minute that began at `minute` (seconds since the epoch)."""

    async def publish(self, points: list[MetricPoint], minute: int) -> None:
        """Send them. Raises an exception if they were not sent."""


class _Minute(NamedTuple):
    began: int
    points: list[MetricPoint]

    def __str__(self) -> str:
        return f"{datetime.fromtimestamp(self.began, UTC):%H:%M} UTC"


class MetricPublication:
    """Publishes each minute of one process once, oldest first.

    A minute that CloudWatch does not take is kept, and sent with its own time when the next one
    ends. The last 15 are kept. If an answer is lost, its minute may count twice. That is better
    than a gap, which is an alarm.

    Args:
        started: what was measured before the first minute.
    """

    def __init__(self, publisher: Publisher, started: MetricSnapshot) -> None:
        self._publisher = publisher
        self._published = started
        self._unsent: deque[_Minute] = deque()
        self._sending: asyncio.Task[None] | None = None

    def minute_ended(self, snapshot: MetricSnapshot, began: int) -> None:
        """Publish the minute that began at `began` (seconds since the epoch) and has just ended.

        Returns at once. Call it once for each minute of the wall clock. All tasks must have the
        same minutes, since CloudWatch adds up what has the same minute.
        """
        self._keep(_Minute(began, snapshot.points_since(self._published)))
        self._published = snapshot
        self._send_soon()

    async def close(self, snapshot: MetricSnapshot, began: int) -> None:
        """Publish the minute in which the process ends, and what is unsent. Takes at most 3 s."""
        self._keep(_Minute(began, snapshot.points_since(self._published, leaving=True)))
        self._published = snapshot
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._sending is not None:
                    await self._sending
                await self._send_soon()
        except TimeoutError:
            _logger.warning(
                "CloudWatch did not answer within %g s: the last minute may be unpublished",
                _CLOSE_SECONDS,
            )
        if self._unsent:
            _logger.warning("%d minutes of metrics are lost with this process", len(self._unsent))

    def _send_soon(self) -> asyncio.Task[None]:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="publish metrics")
        return self._sending

    async def _send(self) -> None:
        while self._unsent:
            minute = self._unsent.popleft()
            try:
                await self._publisher.publish(minute.points, minute.began)
            except Exception as error:  # nothing that fails here may stop the answers
                if _is_permanent(error):
                    _logger.error(
                        "CloudWatch refused the metrics of %s, they are dropped: %s", minute, error
                    )
                    continue
                self._unsent.appendleft(minute)
                self._drop_oldest()
                _log_unsent(minute, len(self._unsent), error)
                return

    def _keep(self, minute: _Minute) -> None:
        self._unsent.append(minute)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._unsent) > _MINUTES_KEPT:
            dropped = self._unsent.popleft()
            _logger.error(
                "the metrics of %s are dropped: CloudWatch has taken none for %d min",
                dropped,
                _MINUTES_KEPT,
            )


def _is_permanent(error: Exception) -> bool:
    return isinstance(error, ClientError) and error.response["Error"]["Code"].startswith(_PERMANENT)


def _log_unsent(minute: _Minute, unsent: int, error: Exception) -> None:
    is_expected = isinstance(error, (BotoCoreError, ClientError))
    _logger.warning(
        "CloudWatch did not take the metrics of %s (%s: %s); %d minutes are kept and sent with "
        "the next",
        minute,
        type(error).__name__,
        error,
        unsent,
        exc_info=None if is_expected else error,
    )
