"""One client's connection over any transport: its session, commands and readers."""

from __future__ import annotations

import random
from collections.abc import Iterable

from evenflow.fargate_handler.event_log import log_event
from evenflow.fargate_handler.gateway import client_commands
from evenflow.fargate_handler.gateway.client_reader import ClientReader
from evenflow.fargate_handler.gateway.client_readers import ClientReaders
from evenflow.fargate_handler.gateway.client_transport import NO_TRANSPORT, ClientTransport
from evenflow.fargate_handler.gateway.connection_events import connection_ended
from evenflow.fargate_handler.gateway.context import ClientContext
from evenflow.fargate_handler.gateway.presence_notice import presence_notice
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.protocol.client_session import ClientSession
from evenflow.stream_core.protocol.client_session_states import (
    Command,
    Disconnect,
    Ended,
    FrameRefused,
    Output,
    SendClose,
    SendPing,
    SendPong,
    SendText,
    SessionEvent,
    SetTimer,
    StopReading,
)
from evenflow.stream_core.protocol.ending_frames import NO_CODE, RESET, CloseCode
from evenflow.stream_core.protocol.messages import (
    ResponseSummary,
    ServerMessage,
    SessionLimits,
    SessionReady,
)
from evenflow.stream_core.protocol.session_init import iso_time
from evenflow.stream_core.records.connection_records import (
    BY_CLIENT,
    BY_SERVER,
    CloseRecord,
    RefusalRecord,
)
from evenflow.stream_core.records.event_record import milliseconds
from evenflow.stream_core.tenants.charges import NOT_COUNTED, Payer

_OF_CLIENT = (SessionEvent.CLIENT_CLOSE, SessionEvent.DISCONNECT)


class ClientConnection:
    """Gives events to the session, and does what the session returns.

    The transport calls `connected`, `receive`, `block`, `unblock` and `disconnected`.

    Args:
        asked_at: when the client asked to connect, in seconds on the monotonic clock.
        sender: the tenant and the address that its messages are counted to.
    """

    __slots__ = (
        "_asked_at",
        "_closed_with",
        "_counted",
        "context",
        "readers",
        "sender",
        "session",
        "transport",
    )

    def __init__(
        self,
        context: ClientContext,
        session: ClientSession,
        asked_at: float,
        sender: tuple[str, str],
    ) -> None:
        self.context = context
        self.session = session
        self.transport: ClientTransport = NO_TRANSPORT
        self.readers = ClientReaders()
        self.sender = sender
        self._asked_at = asked_at
        self._closed_with = RESET
        self._counted = NOT_COUNTED

    # -- called by the transport -------------------------------------------------------------------

    def connected(self, transport: ClientTransport) -> None:
        """The transport is ready: register the connection, greet, and begin the heartbeat."""
        context, now = self.context, self.context.monotonic()
        self.transport = transport
        context.registry.add(self)
        self._counted = context.quotas.connect(self.payer, now)
        context.metrics.labelled(catalogue.CONNECTIONS_OPENED).count(self.session.dialect.name)
        self._do(self.session.connected(_ready_frame(context, self.session), random.random(), now))
        setup = now - self._asked_at + context.clock.lateness
        context.metrics.distribution(catalogue.CONNECTION_SETUP).record(setup * 1000)

    def receive(
        self, opcode: int, payload: bytes, *, final: bool = True, reserved: bool = False
    ) -> None:
        """The client sent a frame. `opcode` is an `Opcode` of `stream_core/protocol`."""
        now = self.context.monotonic()
        self._do(self.session.receive_frame(opcode, payload, now, final=final, reserved=reserved))

    def malformed(self, code: int) -> None:
        """The transport read what is no frame, and has sent a close frame with this code for it."""
        self._do(self.session.malformed(code, self.context.monotonic()))

    def arriving(self, size: int) -> None:
        """Nothing: a message has few bytes."""

    def block(self) -> None:
        """The transport takes no more. It must keep what is still sent."""
        self.context.registry.blocked.add(self)
        self.session.block()
        self.readers.block()

    def unblock(self) -> None:
        """The transport takes frames again: send what was missed, joined."""
        self.context.registry.blocked.discard(self)
        self.session.unblock()
        self.readers.catch_up(self.context.monotonic())

    def disconnected(self) -> None:
        """The transport is gone. Responses are not cancelled: they go on for their grace period."""
        self._do(self.session.disconnected())
        self.context.registry.blocked.discard(self)
        # Without this cycle of references they need no garbage collector.
        self.transport = NO_TRANSPORT

    # -- called by the node ------------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """The session's channel."""
        return self.session.claims.channel

    @property
    def counted_as(self) -> Channel | None:
        """The session whose connection it is. None for a reader with a ticket."""
        claims = self.session.claims
        return claims.channel if claims.only_for is None else None

    @property
    def payer(self) -> Payer:
        """Whom it and its messages are counted to."""
        claims = self.session.claims
        return Payer(self.sender[0], claims.key, claims.known_user, claims.shared)

    @property
    def watches(self) -> bool:
        """Whether it only watches its session, and takes none of its places."""
        return self.session.claims.watches

    @property
    def reading(self) -> bool:
        """Whether a response is being delivered to it."""
        return bool(self.readers)

    def on_due(self, _slot: int) -> None:
        """A timer of the session has ended."""
        self._do(self.session.timer(self.context.monotonic()))

    def look_at_readers(self, now: float) -> None:
        """Tell readers that lag, and close the connection if one lags too far."""
        self.readers.look(self, now)

    @property
    def unsent_bytes(self) -> int:
        """What it was given and its transport has not sent."""
        return self.transport.unsent_bytes

    def let_go(self) -> None:
        """Close the connection, since the node has no memory for what the client doesn't take."""
        self.close(CloseCode.TOO_SLOW, self.readers.why_too_slow())

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """The node is leaving: take no more messages, and tell the client when to reconnect."""
        self._do(self.session.drain(reason, after_ms))

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and let the client answer it. A second call changes nothing."""
        self._do(self.session.close(code, reason, self.context.monotonic()))

    # -- called by its readers and commands --------------------------------------------------------

    def tell(self, message: ServerMessage) -> None:
        """Send any frame but a delta. Ignored once the connection is closing."""
        self._do(self.session.tell(message))

    def present(self, response_id: str, present: Present) -> None:
        """Tell the client who reads a response."""
        sees_names = self.session.claims.sees_names
        notice = presence_notice(self.context, self.channel, response_id, present, sees_names)
        self.tell(notice)

    def presence_lost(self, response_id: str) -> None:
        """A copy has ended of which it is told who reads: ask at another one."""
        client_commands.listen_again(self, response_id)

    def leave(self, reader: ClientReader) -> None:
        """Remove a reader that has given everything."""
        self.readers.leave(reader)

    def find_again(self, reader: ClientReader) -> None:
        """Resume at another copy of the response: the reader's own has ended."""
        client_commands.find_again(self, reader)

    # -- outputs of its session --------------------------------------------------------------------

    def _do(self, outputs: Iterable[Output]) -> None:
        context, transport = self.context, self.transport
        for output in outputs:
            match output:
                case SendText(data):
                    context.outbox.flush()
                    transport.send_text(data)
                    context.measures.frames.value += 1
                case Command(message):
                    client_commands.act(self, message)
                case SendPing():
                    transport.send_ping()
                case SendPong(payload):
                    transport.send_pong(payload)
                case SetTimer(seconds):
                    context.clock.put_after(self, seconds)
                case SendClose() | StopReading() | Disconnect():
                    self._let_go(output)
                case FrameRefused():
                    self._note_refusal(output)
                case Ended(event):
                    self._end(event)

    def _let_go(self, output: SendClose | StopReading | Disconnect) -> None:
        match output:
            case SendClose(code, reason):
                self._closed_with = NO_CODE if code is None else code
                self.context.outbox.flush()
                self.transport.send_close(code, reason)
            case StopReading():
                self.context.metrics.counter(catalogue.FLOODS).value += 1
                self.transport.stop_reading()
            case Disconnect(flush):
                self.transport.disconnect(flush=flush)

    def _note_refusal(self, refused: FrameRefused) -> None:
        error = refused.error
        if refused.is_message:
            self.context.metrics.labelled(catalogue.MESSAGES_REFUSED).count(error.code)
        log_event(RefusalRecord.of(error, self.transport.name, refused.what, self.channel.tenant))

    def _end(self, event: SessionEvent) -> None:
        connection_ended(self.context.metrics, self._close_record(event))
        self.context.registry.remove(self)
        self._counted.close()
        self.readers.leave_all()
        orchestrator = self.context.orchestrator
        for stream in orchestrator.responses.of(self.channel):
            orchestrator.presence.leave(stream, self)

    def _close_record(self, event: SessionEvent) -> CloseRecord:
        channel = self.channel
        return CloseRecord(
            code=self._closed_with,
            by=BY_CLIENT if event in _OF_CLIENT else BY_SERVER,
            protocol=self.session.dialect.name,
            tenant=channel.tenant,
            agent=channel.agent,
            session=channel.session_digest,
            reading=len(self.readers),
            duration_ms=milliseconds(self.context.monotonic() - self._asked_at),
        )


def _ready_frame(context: ClientContext, session: ClientSession) -> SessionReady:
    """`session.ready`: the limits, and the session's responses in this task's memory."""
    orchestrator, limits, claims = context.orchestrator, context.limits, session.claims
    return SessionReady(
        type="session.ready",
        session_id=claims.channel.session,
        protocol=session.dialect.name,
        expires_at=iso_time(claims.expires_at),
        last_message_id=orchestrator.last_message_id(claims.channel),
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
