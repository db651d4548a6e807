"""One client connection in any protocol, such as a WebSocket: its session and its transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.fargate_handler.gateway.websocket.client_transport import (
    NO_TRANSPORT,
    ClientTransport,
)
from evenflow.fargate_handler.orchestrator.request_memory import Reading
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.bounds.call_rates import RateKeys
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import (
    NO_CODE,
    RESET,
    CloseCode,
    code_label,
)
from evenflow.stream_core.protocols.evenflow.connection_states import (
    Command,
    ConnectionEvent,
    Disconnect,
    Ended,
    FrameRejected,
    Output,
    Received,
    SendClose,
    SendPing,
    SendPong,
    SendText,
    SetTimer,
    StopReading,
)
from evenflow.stream_core.protocols.evenflow.messages import ServerMessage
from evenflow.stream_core.protocols.evenflow.socket_session import SocketSession
from evenflow.stream_core.records.connection_records import (
    BY_CLIENT,
    BY_SERVER,
    CloseRecord,
    RejectionRecord,
)
from evenflow.stream_core.records.event_record import milliseconds
from evenflow.stream_core.tenants.charges import NOT_COUNTED, Caller

_OF_CLIENT = (ConnectionEvent.CLIENT_CLOSE, ConnectionEvent.DISCONNECT)
# picows doubles its buffer for a large frame, and keeps it until the connection ends.
_BUFFER_FACTOR = 2
# Share of the memory for requests above which idle connections with a large buffer are closed.
_CROWDED = 0.5


class SocketConnection(ABC):
    """Passes events to the session, and carries out the outputs of the session.

    The transport calls `connected`, `receive`, `arriving`, `block`, `unblock` and `disconnected`.
    The memory account counts a frame from its first bytes on.

    Args:
        asked_at: when the client asked to connect, in seconds on the monotonic clock.
        sender: the tenant and the address that its messages are counted for.
    """

    __slots__ = (
        "_asked_at",
        "_buffer_bytes",
        "_closed_with",
        "_counted",
        "_is_arriving",
        "_memory",
        "context",
        "sender",
        "session",
        "transport",
    )

    rate_keys: RateKeys
    context: ClientContext
    session: SocketSession

    def __init__(
        self,
        context: ClientContext,
        session: SocketSession,
        asked_at: float,
        sender: tuple[str, str],
    ) -> None:
        self.context = context
        self.session = session
        self.transport: ClientTransport = NO_TRANSPORT
        self.sender = sender
        self._asked_at = asked_at
        self._closed_with = RESET
        self._counted = NOT_COUNTED
        self._memory: Reading | None = None  # most connections send small frames only
        self._buffer_bytes = 0
        self._is_arriving = False

    # -- called by the transport -------------------------------------------------------------------

    def connected(self, transport: ClientTransport) -> None:
        """The transport is ready: register the connection, greet, and begin the heartbeat."""
        context, now = self.context, self.context.monotonic()
        self.transport = transport
        context.registry.add(self)
        self._counted = context.quotas.connect(self.payer, now)
        context.metrics.labelled(catalogue.CONNECTIONS_OPENED).count(self.protocol)
        self._do(self._begin(now))
        setup = now - self._asked_at + context.clock.lateness
        context.metrics.distribution(catalogue.CONNECTION_SETUP).record(setup * 1000)

    def receive(
        self, opcode: int, payload: bytes, *, final: bool = True, reserved: bool = False
    ) -> None:
        """The client sent a frame. `opcode` is an `Opcode` of `socket_session.py`."""
        now = self.context.monotonic()
        self._is_arriving = False
        self._do(self.session.receive_frame(opcode, payload, now, final=final, reserved=reserved))
        if self._memory is not None or self.session.waiting_bytes:
            self._count_waiting()

    def arriving(self, size: int) -> None:
        """A frame larger than one read is arriving. `size` bytes of it have been received."""
        if self.session.over:
            # The client's answer to a close frame is small.
            self.transport.stop_reading()
            return
        self._is_arriving = True
        self.session.arriving(self.context.monotonic())
        if _BUFFER_FACTOR * size > self._buffer_bytes:
            self._buffer_bytes = _BUFFER_FACTOR * size
            self._count_waiting()

    def malformed(self, code: int) -> None:
        """The transport received an invalid frame, and has sent a close frame with this code."""
        self._do(self.session.malformed(code, self.context.monotonic()))

    def block(self) -> None:
        """The transport takes no more frames. It must keep those that are still sent."""
        self.context.registry.blocked.add(self)
        self.session.block()

    def unblock(self) -> None:
        """The transport takes frames again."""
        self.context.registry.blocked.discard(self)
        self._do(self.session.unblock())

    def disconnected(self) -> None:
        """The transport is closed. Responses go on, for `EVENFLOW_GRACE_SECONDS` if set."""
        self._do(self.session.disconnected())
        if self._memory is not None:  # the transport's buffer stays until now
            self._memory.release()
            self._memory = None
        self.context.registry.blocked.discard(self)
        # Without this reference cycle both are freed without the garbage collector.
        self.transport = NO_TRANSPORT

    # -- called by the node ------------------------------------------------------------------------

    @property
    @abstractmethod
    def channel(self) -> Channel | None:
        """The channel of its session. None: it has no session's token."""

    @property
    @abstractmethod
    def counted_as(self) -> Channel | None:
        """The session whose connection limit it counts for. None: none."""

    @property
    @abstractmethod
    def grant(self) -> AccessGrant:
        """The credential of its client."""

    @property
    @abstractmethod
    def payer(self) -> Caller:
        """The tenant, key and user that it and its messages are counted for."""

    @property
    @abstractmethod
    def protocol(self) -> str:
        """The name of its protocol in the log and in metrics."""

    @property
    @abstractmethod
    def watches(self) -> bool:
        """Whether it only watches its session, and does not count for its connection limit."""

    @property
    @abstractmethod
    def responses_read(self) -> int:
        """The number of responses that are being delivered to it."""

    @property
    def reading(self) -> bool:
        """Whether a response is being delivered to it."""
        return self.responses_read > 0

    @property
    def unsent_bytes(self) -> int:
        """The bytes that its transport has not sent yet."""
        return self.transport.unsent_bytes

    def on_due(self, _slot: int) -> None:
        """A timer of the session has ended."""
        self._do(self.session.timer(self.context.monotonic()))
        if self._is_idle_with_large_buffer():
            self.close(CloseCode.GOING_AWAY, "the node needs the memory; connect again")

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and let the client answer it. A second call changes nothing."""
        self._do(self.session.close(code, reason, self.context.monotonic()))

    def revoke(self, error: EvenflowError) -> None:
        """Close the connection, since its credential is no longer valid."""
        self._do(self.session.revoke(error, self.context.monotonic()))

    @abstractmethod
    def look_at_readers(self, now: float) -> None:
        """Notify readers that lag, and close the connection if one lags too far."""

    @abstractmethod
    def close_for_memory(self) -> None:
        """Close the connection: the node has no memory for its unsent bytes."""

    @abstractmethod
    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """Accept no more messages, and send the client the time at which to reconnect."""

    @abstractmethod
    def notify(self, message: ServerMessage) -> None:
        """Send what happens in its session, or close where its credential has ended."""

    # -- implemented by each protocol --------------------------------------------------------------

    @abstractmethod
    def _begin(self, now: float) -> Iterable[Output]:
        """Greet the client."""

    @abstractmethod
    def _act(self, received: Command | Received) -> None:
        """Carry out a message of the client."""

    @abstractmethod
    def _stop(self) -> None:
        """Release what serves the client, since the connection has ended."""

    # -- memory ------------------------------------------------------------------------------------

    def _count_waiting(self) -> None:
        """Count received bytes. Close the connection if the node has no memory for them."""
        if self.session.over:
            return
        memory = self._memory = self._memory or Reading(self.context.orchestrator.request_memory)
        size = self._buffer_bytes + self.session.waiting_bytes
        if size <= memory.bytes:
            memory.shrink_to(size)
            return
        try:
            memory.grow_to(size)
        except Overloaded as full:
            self.close(CloseCode.OVER_CAPACITY, full.message)

    @property
    def _is_busy(self) -> bool:
        return self.reading or self._is_arriving or self.session.waiting_bytes > 0

    def _is_idle_with_large_buffer(self) -> bool:
        requests = self.context.orchestrator.memory.requests
        crowded = requests.bytes > _CROWDED * requests.most
        return crowded and self._buffer_bytes > 0 and not self._is_busy

    # -- outputs of its session --------------------------------------------------------------------

    def _do(self, outputs: Iterable[Output]) -> None:
        context, transport = self.context, self.transport
        for output in outputs:
            match output:
                case SendText(data):
                    context.outbox.flush()
                    transport.send_text(data)
                    context.measures.frames.value += 1
                case Command() | Received():
                    self._act(output)
                case SendPing():
                    transport.send_ping()
                case SendPong(payload):
                    transport.send_pong(payload)
                case SetTimer(seconds):
                    context.clock.put_after(self, seconds)
                case SendClose() | StopReading() | Disconnect():
                    self._end_transport(output)
                case FrameRejected():
                    self._record_rejection(output)
                case Ended(event):
                    self._end(event)

    def _end_transport(self, output: SendClose | StopReading | Disconnect) -> None:
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

    def _record_rejection(self, rejection: FrameRejected) -> None:
        error = rejection.error
        if rejection.is_message:
            self.context.metrics.labelled(catalogue.MESSAGES_REFUSED).count(error.code)
        log_event(RejectionRecord.of(error, self.transport.name, rejection.what, self._tenant))

    def _end(self, event: ConnectionEvent) -> None:
        _record_end(self.context.metrics, self._close_record(event))
        self.context.registry.remove(self)
        self._counted.close()
        self._stop()

    @property
    def _tenant(self) -> str:
        """The tenant, for the log."""
        return self.payer.tenant if self.channel is None else self.channel.tenant

    def _close_record(self, event: ConnectionEvent) -> CloseRecord:
        channel = self.channel
        return CloseRecord(
            code=self._closed_with,
            by=BY_CLIENT if event in _OF_CLIENT else BY_SERVER,
            protocol=self.protocol,
            tenant=self._tenant,
            agent=channel.agent if channel else None,
            session=channel.session_digest if channel else None,
            reading=self.responses_read,
            duration_ms=milliseconds(self.context.monotonic() - self._asked_at),
        )


def _record_end(metrics: Metrics, record: CloseRecord) -> None:
    """Count and log the end of a connection, once it is no longer served."""
    # Those that are still open are added to both rates at the end of the minute.
    if record.code == RESET:
        metrics.ratio(catalogue.RESET_RATE).count_both()
    elif record.code == CloseCode.HEARTBEAT_LOST and record.by == BY_SERVER:
        metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).count_both()
    metrics.labelled(catalogue.CONNECTIONS_CLOSED).count(code_label(record.code))
    metrics.distribution(catalogue.CONNECTION_AGE).record(record.duration_ms / 1000)
    log_event(record)
