"""Promises that a handler breaks: too fast, they wake somebody and stop a deployment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.stream_core.base.limits import Limits
from tests.integration.burn_window import HOURS, begin_of_hours, is_burning
from tests.integration.drilled_node import MessageNode
from tests.integration.published_minutes import (
    ENVIRONMENT,
    WINDOW_MINUTES,
    HandlerTask,
    Service,
    published,
)
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.synthesized_alarms import named
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

_LAST_MINUTES = range(60 * HOURS - 3, 60 * HOURS)
_INTERVAL_SECONDS, _LATE_SECONDS = 0.05, 0.4


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """With the hours that have passed behind it."""
    async with published() as service:
        service.begins = begin_of_hours()
        yield service


async def raised(service: Service) -> set[str]:
    """Those that are at the end of the hours: on promises, that roll back, and on evenness."""
    burning = {
        f"burn.{promise}"
        for promise in ("answers", "evenness")
        if await is_burning(service, promise)
    }
    service.begins += 60 * (60 * HOURS - WINDOW_MINUTES)
    of_minutes = {
        name: alarm
        for name, alarm in named(ENVIRONMENT).items()
        if name in ("rollback-answers", "rollback-evenness", "ws.delivery_jitter_ms")
    }
    return burning | await service.raised(of_minutes)


@pytest.mark.parametrize(
    ("failed_of_ten", "expected"),
    [(0, set()), (1, {"rollback-answers"}), (2, {"rollback-answers", "burn.answers"})],
)
async def test_answers_that_fail(failed_of_ten: int, expected: set[str], service: Service) -> None:
    async with scripted_model() as model:
        source = OpenAIModel(model.url, "m", None)
        node = MessageNode(source, Limits())
        await node.start()
        for minute in _LAST_MINUTES:
            for number in range(10):
                failing = number < failed_of_ten
                model.will(Reply([b"no"], status=500) if failing else Reply([chunk("x"), END]))
                assert await node.send() == []
                await node.answered()
            await service.publish(node.task, minute)
        await source.close()
    assert await raised(service) == expected


def deliver(gateway: Gateway, client: Client, late_every: int) -> None:
    """400 deltas to a reader. Now and then the clock is late, as on a core that others need."""
    stream = gateway.stream(client)
    for number in range(1, 401):
        gateway.call.push("x")
        if number % late_every == 0:
            gateway.clock.now += _LATE_SECONDS
        gateway.clock.turn(_INTERVAL_SECONDS)
        client.send("response.ack", response_id=stream.response_id, index=stream.log.next_index - 1)


@pytest.mark.parametrize(
    ("late_every", "expected"),
    [
        (80, set()),
        (25, {"ws.delivery_jitter_ms", "rollback-evenness"}),
        (5, {"ws.delivery_jitter_ms", "rollback-evenness", "burn.evenness"}),
    ],
)
async def test_deltas_that_come_unevenly(
    late_every: int, expected: set[str], service: Service
) -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    task = HandlerTask(gateway.metrics)
    for minute in _LAST_MINUTES:
        deliver(gateway, client, late_every)
        await service.publish(task, minute)
    await gateway.task.leave()
    assert await raised(service) == expected
