"""What makes an alarm happen, done to a handler: what it publishes raises that alarm."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from evenflow.fargate_handler.aws_adapters import open_aws_adapters
from evenflow.fargate_handler.orchestrator.generations import Generations
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.node_exchange import NodeExchange
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.fargate_handler.runtime.memory import resident_bytes
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.errors import RateLimited, UpstreamAnswered
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from evenflow.stream_core.upstream.node_reports import NodeReport
from tests.integration.drilled_node import MessageNode, WholeNode
from tests.integration.dynamodb_emulator import dynamodb_emulator
from tests.integration.dynamodb_faults import Fault
from tests.integration.published_minutes import (
    PREFIX,
    WINDOW_MINUTES,
    Alarms,
    HandlerTask,
    Service,
    published,
)
from tests.integration.scripted_model import Reply, scripted_model
from tests.integration.synthesized_alarms import that_tell_somebody
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


@pytest.fixture(scope="module")
def alarms() -> Alarms:
    return that_tell_somebody()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with published() as service:
        yield service


class SourceOverQuota:
    """A model whose server takes no call at all."""

    continues = False

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        raise UpstreamAnswered(
            "slow down", code="upstream_throttled", status=429, type=RateLimited.type
        )

    async def close(self) -> None:
        """Nothing is open."""


async def raised(service: Service, alarms: Alarms) -> set[str]:
    prefix = f"{PREFIX}-"
    return {name.removeprefix(prefix) for name in await service.raised(alarms)}


async def test_a_model_that_is_down_opens_its_breaker_and_messages_are_refused(
    service: Service, alarms: Alarms
) -> None:
    async with scripted_model() as model:
        model.will(Reply([b"no"], status=500))
        source = OpenAIModel(model.url, "m", None)
        node = MessageNode(source, Limits())
        await node.start()
        for minute in range(WINDOW_MINUTES):
            for _ in range(8):
                await node.send()
                await node.answered()
            await service.publish(node.task, minute)
        assert set(await node.send(3)) == {"upstream_unavailable"}
        assert len(model.requests) == 10, "then it is left alone"
        await source.close()
    assert await raised(service, alarms) == {"upstream.open_breakers", "messages.refusal_rate"}


async def test_a_model_that_throttles(service: Service, alarms: Alarms) -> None:
    node = MessageNode(SourceOverQuota(), Limits())
    await node.start()
    for minute in range(WINDOW_MINUTES):
        for _ in range(2):
            await node.send(6 if minute >= WINDOW_MINUTES - 3 else 0)
            await node.clock.pass_time(30.0, step=0.5)
        await service.publish(node.task, minute)
    await node.stop()
    assert await raised(service, alarms) == {"upstream.throttles"}


async def test_answers_that_fail(service: Service, alarms: Alarms) -> None:
    async with scripted_model() as model:
        model.will(Reply([b"no answer at all"]))
        source = OpenAIModel(model.url, "m", None)
        node = MessageNode(source, Limits(breaker_failures=1_000))
        await node.start()
        for minute in range(WINDOW_MINUTES):
            await node.send(11 if minute >= WINDOW_MINUTES - 3 else 0)
            await node.answered()
            await service.publish(node.task, minute)
        await source.close()
    assert await raised(service, alarms) == {"responses.failure_rate"}


async def test_a_full_node(service: Service, alarms: Alarms) -> None:
    node = MessageNode(ControlledSource(), Limits(generations_per_node=1, queue_depth=0))
    await node.start()
    for minute in range(WINDOW_MINUTES):
        await node.send(3)
        await service.publish(node.task, minute)
    assert await raised(service, alarms) == {"messages.refusal_rate"}
    await node.stop()


async def test_messages_that_wait_and_answers_that_begin_late(
    service: Service, alarms: Alarms
) -> None:
    source = ControlledSource()
    node = MessageNode(source, Limits(generations_per_node=1))
    await node.start()
    for minute in range(WINDOW_MINUTES):
        await node.send(2)
        for _ in range(2):
            await settle()
            node.clock.turn(6.0)
            source.calls[-1].push("late")
            source.calls[-1].finish()
        await node.answered()
        await service.publish(node.task, minute)
    assert await raised(service, alarms) == {"queue.wait_ms", "model.first_token_ms"}


@pytest.mark.parametrize(("sent", "expected"), [(801, set()), (802, {"queue.depth"})])
async def test_a_queue_that_is_nearly_full(
    sent: int, expected: set[str], service: Service, alarms: Alarms
) -> None:
    """One message is answered, the others wait; nobody is refused yet."""
    node = MessageNode(ControlledSource(), Limits(generations_per_node=1))
    await node.start()
    assert await node.send(sent) == []
    for minute in range(WINDOW_MINUTES):
        await service.publish(node.task, minute)
    assert await raised(service, alarms) == expected
    await node.stop()


_SESSIONS, _TRIES = 21, 5


@pytest.mark.parametrize(("minutes", "expected"), [(4, set()), (5, {"store.retries"})])
async def test_a_store_that_throttles(
    minutes: int,
    expected: set[str],
    service: Service,
    alarms: Alarms,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each acceptance is throttled five times, and the sixth try succeeds."""
    monkeypatch.setattr("evenflow.stream_aws.dynamodb._LONGEST_PAUSES", (0.0,) * _TRIES)
    async with dynamodb_emulator() as dynamodb:
        tables = dynamodb.create_tables(f"drill{minutes}")
        for name, value in dynamodb.environment.items():
            monkeypatch.setenv(name, value)
        settings = HandlerSettings(
            store="dynamodb",
            sessions_table=tables.sessions,
            ledger_table=tables.ledger,
            responses_table=tables.responses,
        )
        task = HandlerTask()
        async with open_aws_adapters(settings, task.metrics) as adapters:
            node = MessageNode(ControlledSource(), Limits(), adapters.stores, task)
            await node.start()
            for minute in range(WINDOW_MINUTES):
                for _ in range(_SESSIONS if minute >= WINDOW_MINUTES - minutes else 0):
                    dynamodb.inject(Fault.THROTTLED, "TransactWriteItems", times=_TRIES)
                    assert await node.send() == []
                await service.publish(node.task, minute)
            await node.stop()
    assert await raised(service, alarms) == expected


class Denied(MemoryNodeReports):
    """A table into which this role may not write."""

    async def publish(self, report: NodeReport, now: float) -> None:
        """See `NodeReports.publish`."""
        denied = {"Error": {"Code": "AccessDeniedException", "Message": "not authorized"}}
        raise ClientError(denied, "PutItem")


@pytest.mark.parametrize(("minutes", "expected"), [(2, set()), (3, {"queue.exchange_failures"})])
async def test_a_role_that_may_not_tell_other_tasks(
    minutes: int, expected: set[str], service: Service, alarms: Alarms
) -> None:
    task, clock = HandlerTask(), HandTurnedClock()
    context = NodeContext(Limits(), clock.delivery, task.metrics, clock.monotonic, clock.monotonic)

    async def without_lease(_nodes: Collection[str]) -> Collection[str]:
        return ()

    charges: Any = SimpleNamespace(
        charge_compared=lambda: ["acme"],
        counted=lambda _tenant: {"requests": 1},
        charge_other_nodes=print,
    )
    exchange = NodeExchange(
        context,
        Denied(),
        "node",
        without_lease=without_lease,
        upstreams=Upstreams(ControlledSource(), Limits()),
        generations=cast("Generations", SimpleNamespace(charges=charges)),
    )
    for minute in range(WINDOW_MINUTES):
        if minute == WINDOW_MINUTES - minutes:
            exchange.start()
        for _ in range(60):
            clock.turn(1.0)
            await settle()
        await service.publish(task, minute)
    await exchange.aclose()
    assert await raised(service, alarms) == expected


# -- a whole handler -------------------------------------------------------------------------------


@pytest.fixture
async def whole() -> AsyncIterator[WholeNode]:
    node = WholeNode()
    yield node
    await node.handler.stop()


@pytest.fixture
def full_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with little more memory than this process has taken."""
    monkeypatch.setattr(
        "evenflow.fargate_handler.node.memory_bytes", lambda: int(resident_bytes() * 1.1)
    )


async def test_connections_that_are_reset(
    service: Service, alarms: Alarms, whole: WholeNode
) -> None:
    connections = [whole.connect() for _ in range(60)]
    for minute in range(WINDOW_MINUTES):
        for _ in range(5):
            connections.pop().disconnected()
        whole.pass_minute()
        await service.publish(whole.task, minute)
    assert await raised(service, alarms) == {"ws.reset_rate"}


@pytest.mark.usefixtures("full_machine")
async def test_a_process_that_takes_nearly_all_memory(service: Service, alarms: Alarms) -> None:
    whole = WholeNode()
    for minute in range(WINDOW_MINUTES):
        whole.pass_minute()
        await service.publish(whole.task, minute)
    await whole.handler.stop()
    assert await raised(service, alarms) == {"memory.used_percent"}


async def test_the_load_that_the_service_is_scaled_by(service: Service, whole: WholeNode) -> None:
    for _ in range(1_200):
        whole.connect()
    whole.pass_minute()
    await service.publish(whole.task, 0)
    answer = await service.client.get_metric_statistics(
        Namespace="Evenflow",
        MetricName="node.load_percent",
        Dimensions=[{"Name": "Environment", "Value": PREFIX}],
        StartTime=service.begins,
        EndTime=service.begins + 60,
        Period=60,
        Statistics=["Average"],
    )
    [datapoint] = answer["Datapoints"]
    assert cast("float", datapoint["Average"]) == pytest.approx(10.0)
