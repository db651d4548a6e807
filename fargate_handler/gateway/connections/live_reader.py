"""The base of readers that the delivery clock delivers to: lag, catching up, metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod

from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.flow_control import FlowEvent, FlowState, Lag, ReaderFlow
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import Cursor
from evenflow.stream_core.records.connection_records import SlowReaderRecord
from evenflow.stream_core.records.event_record import milliseconds
from evenflow.stream_core.records.reader_record import LeaveReason, ReaderFigures


class LiveReader(ABC):
    """Delivers a response to one client, as fast as its socket takes it.

    Deltas are sent with their interval if the socket takes them, otherwise later and joined. Only
    the log keeps unsent entries. Each kind of client has its own `deliver`, the hot path. The rare
    cases are here.

    Args:
        cursor: the reader's position in the log of `stream`.
        protocol, transport: their names in the log.
    """

    __slots__ = (
        "_can_send",
        "_context",
        "_counted",
        "_cursor",
        "_entries",
        "_figures",
        "_flow",
        "_log",
        "_lost",
        "_measures",
        "_outbox",
        "_steady",
        "stream",
    )

    def __init__(
        self,
        context: ClientContext,
        stream: ResponseStream,
        cursor: Cursor,
        protocol: str,
        transport: str,
    ) -> None:
        self.stream = stream
        self._context = context
        self._measures = context.measures
        self._outbox = context.outbox
        self._cursor = cursor
        self._log = stream.log
        self._entries = stream.log.entries
        self._flow = ReaderFlow(context.limits)
        self._figures = ReaderFigures(
            stream, protocol, transport, cursor.next_index, context.monotonic()
        )
        # Whether `deliver` may take its fast path: nothing is missing, and the socket takes more.
        self._can_send = False
        self._lost = False
        # The deltas that were counted as due. Those before the reader was attached never were.
        self._counted = stream.log.next_index
        # Whether the last delivery was in time. Only then the next gap is measured.
        self._steady = False

    @property
    def next_index(self) -> int:
        """The next index to deliver."""
        return self._cursor.next_index

    @property
    def current(self) -> bool:
        """Whether it neither lags nor pauses."""
        return self._flow.state is FlowState.CURRENT

    def detach(self) -> None:
        """Stop reading this response."""
        stream, next_index = self.stream, self._cursor.next_index
        self._measures.delivered.value += next_index - self._cursor.began_at
        stream.detach(self)
        now = self._context.monotonic()
        log_event(self._figures.left_record(stream, next_index, now, self._why_left))

    def look(self, now: float) -> FlowEvent | None:
        """Compare its lag with the limits. Called once a second while it lags or pauses.

        Returns:
            LAG once with the notice, EXCEED if it must be closed, else None.
        """
        lag = self._flow.measure(now, self._cursor.behind, self._log.text_bytes)
        event = self._flow.check(lag)
        if event is FlowEvent.LAG:
            self._measures.lagging.value += 1
            self._figures.lags += 1
        elif event is FlowEvent.EXCEED:
            self._exceeded()
        if event is not None:
            self._send_lag_notice(lag)
            self._log_lag(lag)
        return event

    @property
    @abstractmethod
    def transport(self) -> Transport:
        """Its transport, for presence."""

    @property
    @abstractmethod
    def user(self) -> str | None:
        """The user who reads. None: another node reads for a replica."""

    @property
    @abstractmethod
    def pauses_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it."""

    @abstractmethod
    def deliver(self, now: float, jitter: float | None) -> None:
        """Deliver what is new. Called up to 100,000 times a second."""

    @abstractmethod
    def on_queued(self, place: QueuePlace) -> None:
        """Send the client the response's position in the queue, if its protocol can."""

    def announce_start(self) -> None:
        """Send the start event again, if its protocol has one."""
        return

    @abstractmethod
    def on_lost(self) -> None:
        """Find another replica of the response: this one has ended."""

    @property
    @abstractmethod
    def _blocked(self) -> bool:
        """Whether the socket is full."""

    @property
    def _why_left(self) -> LeaveReason | None:
        """Why it stops reading, unless it has everything or was too slow."""
        return LeaveReason.MOVED if self._lost else None

    def _exceeded(self) -> None:
        """Record that it lags too far."""
        self._measures.too_slow.value += 1
        self._figures.too_slow = True

    def _log_lag(self, lag: Lag) -> None:
        stream, figures = self.stream, self._figures
        log_event(
            SlowReaderRecord(
                tenant=stream.channel.tenant,
                session=stream.channel.session_digest,
                response_id=stream.response_id,
                transport=figures.transport,
                let_go=figures.too_slow,
                behind_entries=lag.deltas,
                behind_ms=milliseconds(lag.seconds),
            )
        )

    @property
    def _lacks_entries(self) -> bool:
        """Whether the client lacks entries of the log."""
        return self._cursor.next_index < len(self._entries)

    @abstractmethod
    def _send_all(self) -> None:
        """Send as much as the socket takes, and at least one frame."""

    @abstractmethod
    def _finish(self) -> None:
        """End the delivery: the client has everything before the response's end."""

    @abstractmethod
    def _watch(self) -> None:
        """Have `look` called once a second."""

    @abstractmethod
    def _send_lag_notice(self, lag: Lag) -> None:
        """Send the client a lag notice, if its protocol has one."""

    def _send_joined(self) -> None:
        """Send several entries of one interval together."""
        index = max(self._cursor.next_index, self._counted)
        self._send_all()
        self._measures.late_share.whole += max(0, self._cursor.next_index - index)

    def _send_at_interval(self) -> None:
        """Send what the socket takes, after its interval, and count what was due."""
        head = len(self._entries)
        new = max(0, head - max(self._counted, self._cursor.next_index))
        self._counted = head
        self._measures.late_share.whole += new
        if self._blocked:
            self._measures.late_share.part += new
        else:
            self._send_all()

    def _update_flow(self, now: float) -> None:
        """Update the flow's state: whether the client has everything by now."""
        if self._lacks_entries:
            self._fell_behind(now)
            return
        self._flow.caught_up()
        self._can_send = not self._blocked
        if self._log.closed:
            self._finish()

    def _fell_behind(self, now: float) -> None:
        self._steady = self._can_send = False
        self._flow.fell_behind(now, self._log.text_bytes)
        self._watch()
