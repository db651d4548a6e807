"""One client's connection to its session over any transport: its commands and readers."""

from __future__ import annotations

import random
from collections.abc import Iterable

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.fargate_handler.gateway.connections.rate_keys import token_rate_keys
from evenflow.fargate_handler.gateway.evenflow import client_commands
from evenflow.fargate_handler.gateway.evenflow.client_reader import ClientReader
from evenflow.fargate_handler.gateway.evenflow.client_readers import ClientReaders
from evenflow.fargate_handler.gateway.evenflow.presence_notice import presence_notice
from evenflow.fargate_handler.gateway.websocket.socket_connection import SocketConnection
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.connection_states import Command, Output, Received
from evenflow.stream_core.protocols.evenflow.messages import (
    ResponseSummary,
    ServerMessage,
    SessionLimits,
    SessionReady,
)
from evenflow.stream_core.protocols.evenflow.session_init import iso_time
from evenflow.stream_core.tenants.charges import Caller


class ClientConnection(SocketConnection):
    """The connection of a session's client, or of a client that only reads or watches it."""

    __slots__ = ("rate_keys", "readers")

    session: ClientSession

    def __init__(
        self,
        context: ClientContext,
        session: ClientSession,
        asked_at: float,
        sender: tuple[str, str],
    ) -> None:
        super().__init__(context, session, asked_at, sender)
        self.rate_keys = token_rate_keys(session.claims, sender[1], context)
        """The caller that its handshake and its replays are charged to."""
        self.readers = ClientReaders()

    # -- called by the transport -------------------------------------------------------------------

    def block(self) -> None:
        """Stop the readers: the transport is full, and must keep frames that are still sent."""
        super().block()
        self.readers.block()

    def unblock(self) -> None:
        """Deliver what was missed, joined: the transport takes frames again."""
        super().unblock()
        self.readers.catch_up(self.context.monotonic())

    # -- called by the node ------------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """The session's channel."""
        return self.session.claims.channel

    @property
    def counted_as(self) -> Channel | None:
        """The session whose connection limit it counts for. None: its client has a ticket."""
        claims = self.session.claims
        return claims.channel if claims.only_for is None else None

    @property
    def grant(self) -> AccessGrant:
        """The credential of its client."""
        return AccessGrant.of(self.session.claims)

    @property
    def payer(self) -> Caller:
        """The tenant, key and user that it and its messages are counted for."""
        claims = self.session.claims
        return Caller(self.sender[0], claims.key, claims.known_user, claims.shared)

    @property
    def protocol(self) -> str:
        """Its subprotocol."""
        return self.session.dialect.name

    @property
    def watches(self) -> bool:
        """Whether it only watches its session, and does not count for its connection limit."""
        return self.session.claims.watches

    @property
    def responses_read(self) -> int:
        """The number of responses that are being delivered to it."""
        return len(self.readers)

    def look_at_readers(self, now: float) -> None:
        """Notify readers that lag, and close the connection if one lags too far."""
        self.readers.look(self, now)

    def close_for_memory(self) -> None:
        """Close the connection: the node has no memory for its unsent bytes."""
        self.close(CloseCode.TOO_SLOW, self.readers.why_too_slow())

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """Accept no more messages, and send the client the time at which to reconnect."""
        self._do(self.session.drain(reason, after_ms))

    def notify(self, message: ServerMessage) -> None:
        """Send what happens in its session, or close where its credential has ended."""
        self._do(self.session.notify(message, self.context.monotonic()))

    # -- called by its readers and commands --------------------------------------------------------

    def send_frame(self, message: ServerMessage) -> None:
        """Send any frame but a delta. Ignored once the connection is closing."""
        self._do(self.session.tell(message))

    def present(self, response_id: str, present: Present) -> None:
        """Send the client the readers of a response."""
        sees_names = self.session.claims.sees_names
        notice = presence_notice(self.context, self.channel, response_id, present, sees_names)
        self.notify(notice)

    def presence_lost(self, response_id: str) -> None:
        """Subscribe to the readers of another replica: the current one has ended."""
        client_commands.listen_at_replica(self, response_id)

    def remove_reader(self, reader: ClientReader) -> None:
        """Remove a reader that has delivered everything."""
        self.readers.remove(reader)

    def find_replica(self, reader: ClientReader) -> None:
        """Resume at another replica of the response: that of the reader has ended."""
        client_commands.find_replica(self, reader)

    # -- outputs of its session --------------------------------------------------------------------

    def _begin(self, now: float) -> Iterable[Output]:
        return self.session.connected(
            _ready_frame(self.context, self.session), random.random(), now
        )

    def _act(self, received: Command | Received) -> None:
        if isinstance(received, Command):
            client_commands.act(self, received.message)

    def _stop(self) -> None:
        self.readers.remove_all()
        orchestrator = self.context.orchestrator
        for stream in orchestrator.responses.of(self.channel):
            orchestrator.presence.leave(stream, self)


def _ready_frame(context: ClientContext, session: ClientSession) -> SessionReady:
    """`session.ready`: the limits, and the session's responses in this node's memory."""
    orchestrator, limits, claims = context.orchestrator, context.limits, session.claims
    return SessionReady(
        type="session.ready",
        session_id=claims.channel.session,
        protocol=session.dialect.name,
        expires_at=iso_time(claims.expires_at),
        last_message_id=orchestrator.last_message_id(claims.channel)
        if claims.only_for is None
        else None,
        limits=SessionLimits(
            message_bytes=limits.message_bytes,
            messages_in_flight=limits.messages_in_flight_per_session,
            batch_window_ms=limits.batch_window_ms,
            heartbeat_seconds=limits.heartbeat_seconds,
            pong_timeout_seconds=limits.pong_timeout_seconds,
        ),
        responses=[
            ResponseSummary(
                response_id=stream.response_id,
                message_id=stream.message_id,
                status=stream.state,
                next_index=stream.log.next_index,
            )
            for stream in orchestrator.responses.of(claims.channel)
            if claims.only_for in (None, stream.response_id)
        ],
    )
