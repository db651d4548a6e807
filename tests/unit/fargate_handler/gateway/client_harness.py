"""A client's connection, and everything behind it, in the test's hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from evenflow.fargate_handler.gateway.bodies.reading_work import ReadingWork
from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.access_control import AccessControl
from evenflow.fargate_handler.gateway.connections.connection_registry import ConnectionRegistry
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.outbox import DeliveryMeasures, Outbox
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.auth.rights import ALL_RIGHTS, TO_READ
from evenflow.stream_core.auth.session_token import SessionClaims, SessionTokens
from evenflow.stream_core.base.agents import Agents, built_in_agents
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.call_rates import CallRates
from evenflow.stream_core.bounds.connection_places import ConnectionPlaces
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.dialect import V1, CompactDialect, Dialect
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from evenflow.stream_core.protocols.realtime.dialect import RealtimeDialect
from tests.unit.fargate_handler.gateway.recording_transport import RecordingTransport
from tests.unit.fargate_handler.orchestrator.controlled_source import SourceCall
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task

CHANNEL = Channel("public", "demo", "ses_1")
_DIALECTS = {dialect.name: dialect for dialect in (Dialect(), CompactDialect(), RealtimeDialect())}


class Gateway:
    """Everything behind a connection, in the test's hand."""

    def __init__(self, limits: Limits | None = None, task: Task | None = None) -> None:
        self.task = task = task or Task.alone(limits)
        self.limits, self.clock, self.source = task.limits, task.clock, task.source
        self.orchestrator, self.metrics = task.orchestrator, task.metrics
        self.registry = ConnectionRegistry(self.limits)
        self.places = ConnectionPlaces[asyncio.Transport](1_000, 1_000)
        measures = DeliveryMeasures(self.metrics)
        site = Site(8080, node_id="node")
        self.context = GatewayContext(
            limits=self.limits,
            clock=self.clock.delivery,
            metrics=self.metrics,
            measures=measures,
            outbox=Outbox(lambda flush: flush(), measures),
            orchestrator=self.orchestrator,
            registry=self.registry,
            work=ReadingWork(self.limits, self.clock.monotonic, self.orchestrator.memory.requests),
            accepted=AcceptedConnections(
                self.places, self.metrics.labelled(catalogue.CONNECTIONS_CUT)
            ),
            reconnects=ReconnectRate(self.limits, self.clock.now),
            calls=CallRates(self.limits),
            background=Background(),
            monotonic=self.clock.monotonic,
            wall_time=self.clock.monotonic,
            tenants=task.tenants,
            access=AccessControl(
                SessionTokens({"k": b"secret--" * 4}),
                task.tenants,
                self.orchestrator.ended_sessions,
                site,
                self.clock.monotonic,
                ("demo",),
            ),
            site=site,
            agents=Agents(built_in_agents(demo=True)),
        )

    def connect(self, protocol: str = V1, only_for: str | None = None) -> Client:
        return Client(self, protocol, only_for)

    def stream(self, client: Client) -> ResponseStream:
        """The session's only response."""
        return self.orchestrator.responses.of(client.connection.channel)[0]

    @property
    def call(self) -> SourceCall:
        return self.source.calls[-1]


class Client:
    """One connection and its transport."""

    channel = CHANNEL

    def __init__(self, gateway: Gateway, protocol: str = V1, only_for: str | None = None) -> None:
        self.gateway = gateway
        self.transport = RecordingTransport()
        now = gateway.clock.now
        claims = SessionClaims(
            self.channel,
            expires_at=2_000_000_000,
            issued_at=0,
            only_for=only_for,
            may=ALL_RIGHTS if only_for is None else TO_READ,
        )
        session = ClientSession(
            claims, gateway.limits, expires_in=3600.0, now=now, dialect=_DIALECTS[protocol]
        )
        self.connection = ClientConnection(gateway.context, session, now, ("public", "127.0.0.1"))
        self.connection.connected(self.transport)

    @property
    def frames(self) -> list[Any]:
        return self.transport.frames

    def receive(
        self, payload: bytes = b"", kind: Opcode = Opcode.TEXT, *, reserved: bool = False
    ) -> None:
        self.connection.receive(kind, payload, reserved=reserved)

    def send(self, kind: str, **fields: object) -> None:
        self.receive(json.dumps({"type": kind, **fields}).encode())

    async def say(self, message_id: str = "m1", previous: str | None = None) -> None:
        self.send(
            "chat.message",
            message_id=message_id,
            previous_message_id=previous,
            payload={"text": "hi"},
        )
        await asyncio.sleep(0)  # accepting a message is a task of its own

    def text(self) -> str:
        """What the user sees, and whether every index came once is checked on the way."""
        following, text = 0, ""
        for frame in self.frames:
            if isinstance(frame, list):
                index, delta, first = frame[1], frame[2], frame[3] if len(frame) == 4 else frame[1]
            elif frame["type"] == "chat.response.delta":
                index, delta, first = (
                    frame["index"],
                    frame["delta"],
                    frame.get("from", frame["index"]),
                )
            elif frame["type"] == "chat.response.restarted":
                index, delta, first = frame["index"], "", frame["index"]
                text = ""
            else:
                continue
            assert first == following
            following, text = index + 1, text + delta
        return text

    def last_code(self) -> str:
        code: str = self.frames[-1]["error"]["code"]
        return code
