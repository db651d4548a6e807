"""What makes an alarm happen, done to a handler: what it publishes raises that alarm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from aiobotocore.session import get_session

from fargate_handler.adapters import Adapters, memory_stores
from fargate_handler.gateway.client_connection import ClientConnection
from fargate_handler.handler import Handler
from fargate_handler.membership import Membership
from fargate_handler.memory import resident_bytes
from fargate_handler.metrics import Metrics
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.agent_requests import AgentRequests
from fargate_handler.orchestrator.dispatcher import ServedModel
from fargate_handler.orchestrator.whole_request import IngestEvent
from fargate_handler.settings import HandlerSettings
from fargate_handler.token_sources.openai import OpenAIModel
from fargate_handler.token_sources.port import TokenSource
from stream_core.policy.channel import Channel
from stream_core.policy.limits import Limits
from stream_core.policy.session_token import SessionClaims
from stream_core.protocol.client_session import ClientSession
from stream_core.protocol.errors import EvenflowError
from tests.integration.aws_emulator import SIGNED_BY
from tests.integration.cloudwatch_emulator import cloudwatch_emulator
from tests.integration.published_minutes import (
    PREFIX,
    WINDOW_MINUTES,
    Alarms,
    HandlerTask,
    Service,
)
from tests.integration.scripted_model import Reply, scripted_model
from tests.integration.synthesized_alarms import that_tell_somebody
from tests.unit.fargate_handler.gateway.recording_transport import RecordingTransport
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.peer_network import PeerNetwork
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle


@pytest.fixture(scope="module")
def alarms() -> Alarms:
    return that_tell_somebody()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with (
        cloudwatch_emulator() as endpoint,
        get_session().create_client("cloudwatch", endpoint_url=endpoint, **SIGNED_BY) as client,
    ):
        yield Service(client)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before a second attempt."""
    monkeypatch.setattr("fargate_handler.orchestrator.generation._RETRY_PAUSE_SECONDS", (0.0, 0.0))


async def raised(service: Service, alarms: Alarms) -> set[str]:
    prefix = f"{PREFIX}-"
    return {name.removeprefix(prefix) for name in await service.raised(alarms)}


class Node:
    """A handler without sockets: it accepts messages and asks a model."""

    def __init__(self, source: TokenSource, limits: Limits) -> None:
        self.task = HandlerTask()
        self.clock = HandTurnedClock()
        monotonic = self.clock.monotonic
        self._membership = Membership(
            NodeContext(limits, self.clock.delivery, self.task.metrics, monotonic, monotonic),
            memory_stores(),
            ServedModel(source, AgentRequests(), ""),
            name="task",
            address=None,
            peers=PeerNetwork(),
        )
        self._sent = 0

    async def start(self) -> None:
        await self._membership.start()

    async def send(self, count: int = 1) -> list[str]:
        """So many messages, each of a session of its own. Returns the codes of refusals."""
        refused = []
        for _ in range(count):
            self._sent += 1
            channel = Channel("public", "demo", f"s{self._sent}")
            try:
                await self._membership.orchestrator.submit(
                    IngestEvent(channel, "m1", None, "a question")
                )
            except EvenflowError as error:
                refused.append(error.code)
        return refused

    async def answered(self) -> None:
        """Wait until nothing runs."""
        async with asyncio.timeout(10):
            while self._membership.orchestrator.busy:  # noqa: ASYNC110 - a real server is asked
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        await self._membership.workload.generations.aclose()


async def test_a_model_that_is_down_opens_its_breaker_and_messages_are_refused(
    service: Service, alarms: Alarms
) -> None:
    async with scripted_model() as model:
        model.will(Reply([b"no"], status=500))
        source = OpenAIModel(model.url, "m", None)
        node = Node(source, Limits())
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
    async with scripted_model() as model:
        model.will(Reply([b"slow down"], status=429))
        source = OpenAIModel(model.url, "m", None)
        node = Node(source, Limits())
        await node.start()
        for minute in range(WINDOW_MINUTES):
            await node.send(11 if minute >= WINDOW_MINUTES - 3 else 0)
            await node.answered()
            await service.publish(node.task, minute)
        await source.close()
    assert await raised(service, alarms) == {"upstream.throttles", "responses.failure_rate"}


async def test_a_full_node(service: Service, alarms: Alarms) -> None:
    node = Node(ControlledSource(), Limits(generations_per_node=1, queue_depth=0))
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
    node = Node(source, Limits(generations_per_node=1))
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


# -- a whole handler -------------------------------------------------------------------------------


class WholeNode:
    """A handler that does not listen, and whose time is turned by hand."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        metrics = Metrics()
        self.handler = Handler(
            HandlerSettings(),
            asyncio.get_running_loop(),
            metrics,
            Adapters({"k1": b"secret--" * 4}, memory_stores()),
            lambda: None,
            monotonic=self.clock.monotonic,
            wall_time=self.clock.monotonic,
        )
        self.task = HandlerTask(metrics)
        self._connected = 0

    def connect(self) -> ClientConnection:
        self._connected += 1
        claims = SessionClaims(
            Channel("public", "demo", f"s{self._connected}"),
            expires_at=2_000_000_000,
            issued_at=0,
        )
        context = self.handler._context()
        session = ClientSession(claims, context.limits, expires_in=3_600.0, now=self.clock.now)
        client = ClientConnection(context, session, self.clock.now, ("public", "127.0.0.1"))
        client.connected(RecordingTransport())
        return client

    def pass_minute(self) -> None:
        """Sixty sweeps, and the end of the metrics' minute."""
        for _ in range(60):
            self.clock.now += 1.0
            self.handler.on_due(0)


@pytest.fixture
async def whole() -> AsyncIterator[WholeNode]:
    node = WholeNode()
    yield node
    await node.handler.stop()


@pytest.fixture
def full_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with little more memory than this process has taken."""
    monkeypatch.setattr("fargate_handler.handler.memory_bytes", lambda: int(resident_bytes() * 1.1))


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
