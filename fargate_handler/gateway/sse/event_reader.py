"""Delivers a response as server-sent events (SSE). `deliver` is the hot path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.fargate_handler.gateway.connections.deadline import ClockTimer, Deadline, TimedOut
from evenflow.fargate_handler.gateway.connections.live_reader import LiveReader
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.errors import EvenflowError, TooSlow
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.flow_control import FlowEvent, Lag
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LogEncoder
from evenflow.stream_core.http.routes import EVENFLOW
from evenflow.stream_core.records.reader_record import LeaveReason

# The comment of a heartbeat, without an empty line: some parsers, OpenAI's for Python and httpx-sse
# among them, take a comment with one for an event without data.
STILL_HERE = b": still here\n"

PROBE_SECONDS = 1.0
"""The heartbeat interval of a client that closed its side of the connection."""


EncodeStart = Callable[[ResponseStream, int], bytes]
"""Encodes the start event of an answer, from the response and the reader's next index."""


class EventSocket(Protocol):
    """The socket of an answer, as its reader sees it. Its methods never wait or raise."""

    @property
    def open(self) -> bool:
        """Whether the head was sent. Events may be sent only then."""

    @property
    def blocked(self) -> bool:
        """Whether it is full."""

    def send(self, events: bytes) -> None:
        """Send events. It keeps what it cannot send at once, and is blocked."""


class EventReader(LiveReader):
    """Delivers one replica of a response into the socket of a request.

    The request waits in `woken`, and does what cannot be done in a turn of the clock: it sends the
    head, finds another replica, and ends the answer.

    Args:
        encoder: reads `stream`.
        deadline: of the response's end.
        heartbeat: sent after an interval without events.
        protocol: its name in the log.
        user: the user who reads. None: another node reads for a replica.
        start: encodes the answer's start event. None: the protocol has none.

    Attributes:
        over: whether the socket has taken everything, to the end of the response.
        left_behind: whether this replica has ended, and another one has the rest.
        error: why the rest can't be delivered.
    """

    __slots__ = (
        "_beat_due",
        "_beat_seconds",
        "_call",
        "_deadline",
        "_encoder",
        "_heartbeat",
        "_send",
        "_sent_at",
        "_socket",
        "_start",
        "_timer",
        "_user",
        "error",
        "over",
    )

    def __init__(
        self,
        context: ClientContext,
        stream: ResponseStream,
        encoder: LogEncoder,
        socket: EventSocket,
        deadline: Deadline,
        heartbeat: bytes = STILL_HERE,
        protocol: str = EVENFLOW.name,
        user: str | None = "",
        start: EncodeStart | None = None,
    ) -> None:
        super().__init__(context, stream, encoder.cursor, protocol, "sse")
        self._user = user
        self._start = start
        self.over = False
        self.error: EvenflowError | None = None
        self._encoder = encoder
        self._socket = socket
        self._send = socket.send
        self._deadline = deadline
        self._heartbeat = heartbeat
        self._sent_at = context.monotonic()
        self._beat_due = False
        self._beat_seconds = context.limits.sse_heartbeat_seconds
        self._call = asyncio.Event()
        self._timer = ClockTimer(self._on_time)

    # -- what the request calls --------------------------------------------------------------------

    def attach(self) -> None:
        """Begin to read.

        Raises:
            RateLimited: the response has as many readers as allowed.
        """
        self.stream.readers.check_limit()
        self._put_timer()
        self.stream.attach(self)

    async def woken(self) -> None:
        """Wait until the request itself must act."""
        await self._call.wait()
        self._call.clear()

    def first(self) -> bytes:
        """The bytes to send with the head: the first events, or a heartbeat. May be empty.

        Raises:
            EvenflowError: there is no answer. It still can have a status.
        """
        return self._encoder.take() or (self._heartbeat if self._beat_due else b"")

    def detach(self) -> None:
        """Stop reading."""
        self._can_send = False
        self._timer.stop()
        self._context.registry.slow.discard(self)
        super().detach()

    # -- what its socket calls ---------------------------------------------------------------------

    def block(self) -> None:
        """Stop delivering: the socket is full."""
        self._can_send = False

    def unblock(self) -> None:
        """Deliver what was missed, joined: the socket takes events, for the first time or again."""
        self.deliver(self._context.monotonic(), None)

    # -- what the response and the node call -------------------------------------------------------

    @property
    def user(self) -> str | None:
        """The user who reads. None: another node reads for a replica."""
        return self._user

    @property
    def transport(self) -> Transport:
        """Server-sent events."""
        return "sse"

    @property
    def pauses_model(self) -> bool:
        """False: a request never pauses."""
        return False

    @property
    def left_behind(self) -> bool:
        """Whether this replica has ended, and another one has the rest."""
        return self._lost

    def deliver(self, now: float, jitter: float | None) -> None:
        """Deliver what is new. Called up to 100,000 times a second, so it avoids calls."""
        if not self._can_send:
            self._deliver_late(now)
            return
        missing = len(self._entries) - self._cursor.next_index
        if missing:
            if not self._steady:
                self._steady = True
            elif jitter is not None:
                self._measures.jitter.record(jitter * 1000)
        if missing == 1 and self._log.state is None:
            try:
                events = self._encoder.take()
            except EvenflowError as error:
                self._fail(error)
                return
            if events:
                self._sent_at = now
                self._outbox.put(self._send, events)
        elif missing or self._log.state is not None:
            self._send_joined()
            self._update_flow(now)

    def on_lost(self) -> None:
        """This replica has ended: another one has the rest."""
        self._can_send = False
        self._lost = True
        self._call.set()

    def on_queued(self, place: QueuePlace) -> None:
        """Send the response's place in the queue, once the head was sent."""
        self._send_notice(self._encoder.queued(place))

    def announce_start(self) -> None:
        """Send the start event again, once the head was sent, if the protocol has one."""
        if self._start is not None:
            self._send_notice(self._start(self.stream, self._cursor.next_index))

    def look_at_readers(self, now: float) -> None:
        """End the stream if the client lags too far."""
        if self.look(now) is FlowEvent.EXCEED:
            self._fail(self._too_slow("for too long"))
        elif self.current:
            self._context.registry.slow.discard(self)

    def hurry(self) -> None:
        """Send heartbeats faster to a half-closed client: a write shows whether it is gone."""
        self._beat_seconds = min(self._beat_seconds, PROBE_SECONDS)
        self._timer.stop()
        self._timer = ClockTimer(self._on_time)
        self._put_timer()

    def end_with(self, error: EvenflowError) -> None:
        """End the stream, since its credential is no longer valid."""
        self._fail(error)

    def close_for_memory(self) -> None:
        """End the stream, since the node has no memory for its unsent bytes."""
        self._fail(self._too_slow("of what waits for it, and this node needs the memory"))

    # -- in between --------------------------------------------------------------------------------

    def _send_notice(self, event: bytes) -> None:
        """Send an event that is not in the log, if the client can take one now."""
        if self._socket.open and not self._socket.blocked and self._flow.may_send:
            self._outbox.flush()
            self._send(event)

    @property
    def _blocked(self) -> bool:
        return self._socket.blocked

    @property
    def _lacks_entries(self) -> bool:
        if self._cursor.next_index < len(self._entries):
            return True
        # The socket must have taken the end, too.
        return self._log.state is not None and (self._socket.blocked or not self._encoder.ended)

    def _deliver_late(self, now: float) -> None:
        """Deliver what did not go out with its interval, if the socket takes it now."""
        self._steady = False
        if self.over or self._lost or self.error is not None:
            return
        if not self._socket.open:
            self._call.set()
            return
        self._send_at_interval()
        if self.error is None:
            self._update_flow(now)

    def _send_all(self) -> None:
        self._outbox.flush()
        try:
            while not self._socket.blocked and (events := self._encoder.take()):
                self._send(events)
                self._sent_at = self._context.monotonic()
                self._measures.frames.value += 1
        except EvenflowError as error:
            self._fail(error)

    def _finish(self) -> None:
        self._can_send = False
        self.over = True
        self._call.set()

    def _fail(self, error: EvenflowError) -> None:
        self._can_send = False
        self.error = self.error or error
        self._call.set()

    @property
    def _why_left(self) -> LeaveReason | None:
        failed = self.error is not None and not self._figures.too_slow
        return LeaveReason.FAILED if failed else super()._why_left

    def _too_slow(self, how: str) -> TooSlow:
        self._figures.too_slow = True
        return TooSlow(
            f"too slow: the client took too little {how}, so its stream ends; what it has is good, "
            f"resume {self.stream.response_id} after {self._cursor.after}",
            code="too_slow",
            retry_after_ms=1000,
        )

    def _send_lag_notice(self, lag: Lag) -> None:
        """Nothing: these protocols have no lag notice."""

    def _watch(self) -> None:
        self._context.registry.slow.add(self)

    # -- time --------------------------------------------------------------------------------------

    def _put_timer(self) -> None:
        context = self._context
        beat_in = self._sent_at + self._beat_seconds - context.monotonic()
        context.clock.put_after(self._timer, max(0.0, min(beat_in, self._deadline.left)))

    def _on_time(self) -> None:
        """Send a heartbeat if nothing was sent in its interval. End the stream at its deadline."""
        if self.over or self._lost or self.error is not None:
            return
        try:
            self._deadline.check()
        except TimedOut as error:
            self._fail(error)
            return
        now = self._context.monotonic()
        if now - self._sent_at >= self._beat_seconds:
            self._beat(now)
        self._put_timer()

    def _beat(self, now: float) -> None:
        self._sent_at = now
        if not self._socket.open:
            self._beat_due = True
            self._call.set()
        elif not self._socket.blocked:
            self._outbox.flush()
            self._send(self._heartbeat)
