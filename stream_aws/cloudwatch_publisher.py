"""Publishes a minute's points to CloudWatch: one PutMetricData, which the SDK compresses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from aiobotocore.config import AioConfig

from stream_core.metric_snapshot import MetricPoint

NAMESPACE = "Evenflow"
DIMENSION = "Environment"
"""The only dimension: tasks are told apart nowhere, so that an alarm sees the whole environment and a metric is paid once."""

CLIENT_CONFIG = AioConfig(
    # All attempts together end well within the minute that the next one begins in.
    connect_timeout=3,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
)
"""For `create_client("cloudwatch", …)`."""

_UNITS = {"ms": "Milliseconds", "%": "Percent", "frames/s": "Count/Second", "bytes": "Bytes"}


def cloudwatch_unit(unit: str) -> str:
    """CloudWatch's word for a unit of the catalogue; whatever is counted in pieces is `Count`."""
    return _UNITS.get(unit, "Count")


class CloudWatchPublisher:
    """Publishes the points of one environment.

    Args:
        client: aiobotocore's `cloudwatch` client; it stays the caller's to close.
        environment: value of the dimension: `dev`, `staging`, `prod`.
    """

    def __init__(self, client: Any, environment: str) -> None:
        self._client = client
        self._dimensions = [{"Name": DIMENSION, "Value": environment}]

    async def publish(self, points: Sequence[MetricPoint], minute: int) -> None:
        """Send the points of the minute that began at `minute` (seconds since the epoch).

        The catalogue is far below the 1,000 metrics and 150 values each that a request may have. Sent twice, a minute
        counts twice: CloudWatch adds what it is given.

        Raises:
            botocore.exceptions.ClientError: CloudWatch throttled or refused it.
            botocore.exceptions.BotoCoreError: it could not be reached, or there are no credentials.
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
