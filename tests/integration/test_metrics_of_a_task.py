"""A handler and CloudWatch: what a task did is there when it has left."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from aiobotocore.session import get_session

from tests.integration.aws_emulator import CREDENTIALS, SIGNED_BY
from tests.integration.chat_client import demo
from tests.integration.cloudwatch_emulator import cloudwatch_emulator
from tests.integration.conftest import OpenSession, Serve


async def total(client: Any, name: str) -> float:
    """The sum of all that was published of a metric; no minute may have been published twice."""
    now = time.time()
    answer = await client.get_metric_statistics(
        Namespace="Evenflow",
        MetricName=name,
        Dimensions=[{"Name": "Environment", "Value": "test"}],
        StartTime=datetime.fromtimestamp(now - 600, UTC),
        EndTime=datetime.fromtimestamp(now + 60, UTC),
        Period=60,
        Statistics=["Sum", "SampleCount"],
    )
    assert [datapoint["SampleCount"] for datapoint in answer["Datapoints"]] == [1] * len(
        answer["Datapoints"]
    )
    return sum((datapoint["Sum"] for datapoint in answer["Datapoints"]), 0.0)


async def test_a_task_publishes_the_minute_in_which_it_leaves(
    opened: OpenSession, serve: Serve
) -> None:
    async with cloudwatch_emulator() as endpoint:
        environment = {"AWS_ENDPOINT_URL_CLOUDWATCH": endpoint, **CREDENTIALS}
        server = await serve(environment, metrics="cloudwatch", metrics_environment="test")
        session = await opened(server)
        async with session.connect() as connection:
            await connection.ask("m1", None, demo(tokens=20, gap_ms=5))
            await connection.ask("m2", "m1", demo(tokens=20, gap_ms=5))
        delivered = await server.metric("deltas_delivered_total")
        await server.stop()
        async with get_session().create_client(
            "cloudwatch", endpoint_url=endpoint, **SIGNED_BY
        ) as client:
            assert await total(client, "responses.completed") == 2
            assert await total(client, "deltas.delivered") == delivered
