"""Handlers that an alarm drill does something to: one of messages, and a whole one."""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.adapters import Adapters, Stores, memory_stores
from evenflow.fargate_handler.cluster import ClusterMember
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.dispatcher import ServedModel
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from tests.integration.published_minutes import (
    HandlerTask,
)
from tests.unit.fargate_handler.gateway.recording_transport import RecordingTransport
from tests.unit.fargate_handler.orchestrator.peer_network import PeerNetwork
from tests.unit.hand_turned_clock import HandTurnedClock


class MessageNode:
    """A handler without sockets: it accepts messages and asks a model.

    Args:
        stores: None: in memory.
        task: what its metrics are published as.
    """

    def __init__(
        self,
        source: TokenSource,
        limits: Limits,
        stores: Stores | None = None,
        task: HandlerTask | None = None,
    ) -> None:
        self.task = task or HandlerTask()
        self.clock = HandTurnedClock()
        monotonic = self.clock.monotonic
        self._cluster = ClusterMember(
            NodeContext(limits, self.clock.delivery, self.task.metrics, monotonic, monotonic),
            stores or memory_stores(),
            ServedModel(source, AgentSettings(), ""),
            name="task",
            address=None,
            peers=PeerNetwork(),
        )
        self._sent = 0

    async def start(self) -> None:
        await self._cluster.start()

    async def send(self, count: int = 1) -> list[str]:
        """So many messages, each of a session of its own. Returns the codes of refusals."""
        refused = []
        for _ in range(count):
            self._sent += 1
            channel = Channel("public", "demo", f"s{self._sent}")
            try:
                await self._cluster.orchestrator.submit(
                    IncomingMessage(channel, "m1", None, "a question")
                )
            except EvenflowError as error:
                refused.append(error.code)
        return refused

    async def answered(self) -> None:
        """Wait until nothing runs."""
        async with asyncio.timeout(10):
            while self._cluster.orchestrator.busy:  # noqa: ASYNC110 - a real server is asked
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        await self._cluster.workload.generations.aclose()


class WholeNode:
    """A handler that does not listen, and whose time is turned by hand."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        metrics = Metrics()
        self.handler = Node(
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
        context = self.handler._gateway
        session = ClientSession(claims, context.limits, expires_in=3_600.0, now=self.clock.now)
        client = ClientConnection(context, session, self.clock.now, ("public", "127.0.0.1"))
        client.connected(RecordingTransport())
        return client

    def pass_minute(self) -> None:
        """Sixty sweeps, and the end of the metrics' minute."""
        for _ in range(60):
            self.clock.now += 1.0
            self.handler.on_due(0)
