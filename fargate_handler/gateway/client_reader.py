"""A client's cursor over a response. `deliver` is the hot path."""

from __future__ import annotations

from typing import Protocol

from fargate_handler.gateway.client_transport import ClientTransport
from fargate_handler.gateway.connection_registry import OpenConnection
from fargate_handler.gateway.context import ClientContext
from stream_core.delivery.flow_control import FlowEvent, FlowState, ReaderFlow
from stream_core.delivery.paced_cursor import Pace, PacedCursor
from stream_core.log.response_stream import ResponseStream
from stream_core.policy.channel import Channel
from stream_core.protocol.client_session import ClientSession
from stream_core.protocol.dialect import DeltaEncoder
from stream_core.protocol.ending_frames import restart_frame, terminal_frame
from stream_core.protocol.messages import LagNotice, ServerMessage


class ReadingClient(OpenConnection, Protocol):
    """A client's connection, as its readers see it."""

    context: ClientContext
    session: ClientSession
    transport: ClientTransport

    @property
    def channel(self) -> Channel:
        """The session's channel."""

    def tell(self, message: ServerMessage) -> None:
        """Send any frame but a delta."""

    def leave(self, reader: ClientReader) -> None:
        """Remove a reader that has given everything."""

    def find_again(self, reader: ClientReader) -> None:
        """Resume at another copy of the response: the reader's own has ended."""


class ClientReader(PacedCursor):
    """Delivers a response to a client.

    Deltas go out with their interval if the transport takes them, otherwise later and joined.
    Nothing goes out while the client pauses, or has used up its credit.

    Args:
        next_index: the first index to deliver.
        number: replaces the ids in the compact subprotocol.
        pace: the client's pause and credit.

    Raises:
        InvalidRequest: more credit than may be granted.
    """

    __slots__ = (
        "_asked_to_pause",
        "_client",
        "_counted",
        "_encoder",
        "_flow",
        "_flows",
        "_lost",
        "_measures",
        "_outbox",
        "_send",
        "_session",
        "_steady",
        "number",
        "stream",
    )

    def __init__(
        self,
        client: ReadingClient,
        stream: ResponseStream,
        next_index: int,
        encoder: DeltaEncoder,
        number: int | None,
        pace: Pace,
    ) -> None:
        context = client.context
        limits = context.limits
        super().__init__(
            stream.log,
            next_index,
            limits.frame_characters,
            credit=pace.credit,
            most_credit=limits.credit_window,
        )
        self.stream = stream
        self._client = client
        self._session = client.session
        self._send = client.transport.send_text
        self._encoder = encoder
        self.number = number
        self._flow = ReaderFlow(limits)
        # Whether `deliver` may take its short way: nothing is missing, nothing blocked, and there
        # is no credit.
        self._flows = not client.session.blocked and pace.credit is None
        self._asked_to_pause = False
        self._lost = False
        self._measures = context.measures
        self._outbox = context.outbox
        # How many deltas were counted as due. Those before the reader came were due in no interval.
        self._counted = stream.log.next_index
        self._steady = (
            False  # whether the last delivery was in time: only then the next gap is measured
        )

    @property
    def holds_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it."""
        return self._flow.holds_model(self.stream.log.text_bytes)

    @property
    def current(self) -> bool:
        """Whether it needs no attention: it keeps up and doesn't pause."""
        return self._flow.state is FlowState.CURRENT

    def deliver(self, now: float, jitter: float | None) -> None:
        """Deliver what is new. Called up to 100,000 times a second, so it avoids calls."""
        if not self._flows:
            self._deliver_late(now)
            return
        entries, index = self._entries, self.next_index
        head = len(entries)
        if index < head:
            if not self._steady:
                self._steady = True
            elif jitter is not None:
                self._measures.jitter.record(jitter * 1000)
            entry = entries[index]
            if index + 1 == head and isinstance(entry, str):
                self.next_index = head
                outbox = self._outbox
                outbox.append((self._send, self._encoder.delta(entry, index, index)))
                if len(outbox) == 1:
                    outbox.flush_soon()
            else:
                self._give_all()
                self._measures.due.whole += max(0, self.next_index - max(index, self._counted))
                if self.behind:
                    self._fell_behind(now)
                    return
        if self._log.state is not None:
            self._finish()

    def block(self) -> None:
        """The transport takes no more."""
        self._flows = False

    @property
    def pace(self) -> Pace:
        """The client's pause and credit."""
        return Pace(self._asked_to_pause, self.credit)

    @property
    def epoch(self) -> int:
        """The newest epoch that this reader was told of."""
        return self._log.epoch_at(self.next_index - 1)

    def lost(self) -> None:
        """This copy of the response has ended: find another one."""
        self._flows = False
        self._lost = True
        self._client.find_again(self)

    def pause(self, now: float) -> None:
        """Pause the delivery to this reader."""
        self._asked_to_pause = True
        self._hold(now)

    def resume(self, now: float) -> None:
        """End the pause. The delivery goes on as far as the credit reaches."""
        self._asked_to_pause = False
        self._go_on(now)

    def add_credit(self, credit: int, now: float) -> None:
        """Let `credit` more entries be delivered.

        Raises:
            InvalidRequest: that is more than may be granted ahead. Nothing was changed.
        """
        self.grant(credit)
        self._flows = False
        self._go_on(now)

    def let_go(self, now: float) -> None:
        """Deliver everything from now on, without pause and credit."""
        self.lift()
        self.resume(now)

    def leave(self) -> None:
        """Stop reading this response."""
        self._end_pause()
        self._measures.delivered.value += self.next_index - self.began_at
        self.stream.detach(self)

    def look(self, now: float) -> FlowEvent | None:
        """Tell the client if it lags. Returns EXCEED when it must go. Called once a second."""
        flow, log = self._flow, self.stream.log
        if flow.end_long_pause(now):
            self._stop_holding()
            return FlowEvent.EXCEED
        lag = flow.measure(now, self.behind, log.text_bytes)
        event = flow.check(lag)
        if event is not None:
            notice = LagNotice(
                type="lag",
                session_id=self.stream.channel.session,
                response_id=self.stream.response_id,
                behind_deltas=lag.deltas,
                behind_ms=int(lag.seconds * 1000),
                last_index=self.next_index - 1,
            )
            self._client.tell(notice)
        return event

    def _give_all(self) -> None:
        """Send as much as the transport takes, and at least one frame."""
        self._outbox.flush()
        while (taken := self.take()) is not None:
            if isinstance(taken, str):
                self._send(self._encoder.delta(taken, self.first, self.last))
            else:
                told = restart_frame(self.stream, taken, self.last)
                self._send(self._session.dialect.write(told))
            self._measures.frames.value += 1
            if self._session.blocked:
                return

    def _deliver_late(self, now: float) -> None:
        """Deliver what did not go out with its interval, if the transport takes it now."""
        self._steady = False
        if self._lost or not self._flow.may_send:
            self._finish_without_credit()
            return
        head = len(self._entries)
        new = head - max(self._counted, self.next_index)
        self._counted = head
        self._measures.due.whole += new
        if self._session.blocked:
            self._measures.due.part += new
        else:
            self._give_all()
        if self.starved and not self.at_end:
            self._hold(now)
            return
        if self.behind:
            self._fell_behind(now)
            return
        self._flow.caught_up()
        self._flows = not self._session.blocked and self.credit is None
        if self._log.closed:
            self._finish()

    def _fell_behind(self, now: float) -> None:
        self._steady = self._flows = False
        self._flow.fell_behind(now, self._log.text_bytes)
        self._client.context.registry.slow.add(self._client)

    def _hold(self, now: float) -> None:
        # With credit, what is ahead counts from the reader's place: it may stop again with each
        # grant.
        unread = 0 if self.credit is None else self.unread_bytes
        if self._flow.pause(now, self.stream.log.text_bytes - unread):
            self._flows = False
            self.stream.paused_readers += 1
            self.stream.hold_or_release()
            self._client.context.registry.slow.add(self._client)

    def _go_on(self, now: float) -> None:
        if self.starved:
            self._finish_without_credit()
        elif not self._asked_to_pause and self._end_pause():
            self.deliver(now, None)

    def _finish_without_credit(self) -> None:
        """Deliver the end, which needs no credit. A client that asked for a pause gets nothing."""
        if (
            self._flow.state is FlowState.PAUSED
            and self.at_end
            and not (self._lost or self._asked_to_pause)
        ):
            self._finish()

    def _end_pause(self) -> bool:
        if not self._flow.resume():
            return False
        self._stop_holding()
        return True

    def _stop_holding(self) -> None:
        self.stream.paused_readers -= 1
        self.stream.hold_or_release()

    def _finish(self) -> None:
        self._client.tell(terminal_frame(self.stream))
        self._client.leave(self)
