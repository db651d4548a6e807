"""Delivers a response over a client's connection. `deliver` is the hot path."""

from __future__ import annotations

from typing import Protocol

from evenflow.fargate_handler.gateway.connections.connection_registry import OpenConnection
from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.fargate_handler.gateway.connections.live_reader import LiveReader
from evenflow.fargate_handler.gateway.websocket.client_transport import ClientTransport
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.bounds.call_rates import RateKeys
from evenflow.stream_core.delivery.credit_cursor import CreditCursor, FlowControl
from evenflow.stream_core.delivery.delta_encoder import EntryEncoder
from evenflow.stream_core.delivery.flow_control import FlowEvent, FlowState, Lag
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.messages import LagNotice, ResponseStart, ServerMessage
from evenflow.stream_core.protocols.evenflow.response_frames import (
    queued_frame,
    restart_frame,
    terminal_frame,
)


class ReadingClient(OpenConnection, Protocol):
    """A client's connection, as its readers see it."""

    rate_keys: RateKeys
    context: ClientContext
    session: ClientSession
    transport: ClientTransport

    @property
    def channel(self) -> Channel:
        """The session's channel."""

    def send_frame(self, message: ServerMessage) -> None:
        """Send any frame but a delta. Ignored once the connection is closing."""

    def remove_reader(self, reader: ClientReader) -> None:
        """Remove a reader that has delivered everything."""

    def find_replica(self, reader: ClientReader) -> None:
        """Resume at another replica of the response: that of the reader has ended."""


class ClientReader(LiveReader):
    """Delivers a response to a client that has a connection.

    Nothing is sent while the client pauses, or has used up its credit.

    Args:
        next_index: the first index to deliver.
        number: replaces the ids in the compact subprotocol.
        flow_state: the client's pause and credit.

    Raises:
        InvalidRequest: more credit than may be granted.
    """

    __slots__ = (
        "_client",
        "_encoder",
        "_is_paused_by_client",
        "_paced",
        "_send",
        "_session",
        "_unacknowledged",
        "number",
    )

    def __init__(
        self,
        client: ReadingClient,
        stream: ResponseStream,
        next_index: int,
        encoder: EntryEncoder,
        number: int | None,
        flow_state: FlowControl,
    ) -> None:
        limits = client.context.limits
        self._paced = CreditCursor(
            stream.log,
            next_index,
            limits.frame_characters,
            credit=flow_state.credit,
            most_credit=limits.credit_window,
        )
        super().__init__(
            client.context,
            stream,
            self._paced,
            client.session.dialect.name,
            client.transport.name,
        )
        self._client = client
        self._session = client.session
        self._send = client.transport.send_text
        self._encoder = encoder
        self.number = number
        self._can_send = not client.session.blocked and flow_state.credit is None
        self._is_paused_by_client = False
        # The last index that was sent at a moment, and that moment, until it is acknowledged.
        self._unacknowledged: tuple[int, float] | None = None

    @property
    def user(self) -> str:
        """The user of the client's token."""
        return self._session.claims.user

    @property
    def transport(self) -> Transport:
        """A WebSocket."""
        return "websocket"

    @property
    def pauses_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it."""
        return self._flow.pauses_model(self._log.text_bytes)

    def deliver(self, now: float, jitter: float | None) -> None:
        """Deliver what is new. Called up to 100,000 times a second, so it avoids calls."""
        if not self._can_send:
            self._deliver_late(now)
            return
        entries, cursor = self._entries, self._cursor
        index, end = cursor.next_index, len(entries)
        if index < end:
            if not self._steady:
                self._steady = True
            elif jitter is not None:
                self._measures.jitter.record(jitter * 1000)
            entry = entries[index]
            if index + 1 == end and isinstance(entry, str):
                cursor.next_index = end
                self._outbox.put(self._send, self._encoder.delta(entry, index, index))
            else:
                self._send_joined()
                if self._lacks_entries:
                    self._fell_behind(now)
                    return
        if self._log.state is not None:
            self._finish()

    def block(self) -> None:
        """Stop delivering: the transport is full."""
        self._can_send = False

    @property
    def flow_state(self) -> FlowControl:
        """The client's pause and credit."""
        return FlowControl(self._is_paused_by_client, self._paced.credit)

    @property
    def epoch(self) -> int:
        """The newest epoch of which this reader has an entry."""
        return self._log.epoch_at(self.next_index - 1)

    def acknowledged(self, index: int, now: float) -> float | None:
        """Record that the client has everything up to `index`.

        Returns:
            Seconds from an earlier call until the client acknowledged all that was sent by then.
            None: it has not yet, or there was no such call.
        """
        awaited = self._unacknowledged
        if awaited is not None and index < awaited[0]:
            return None
        last = self.next_index - 1
        self._unacknowledged = (last, now) if index < last else None
        return None if awaited is None else now - awaited[1]

    def on_lost(self) -> None:
        """Find another replica of the response: this one has ended."""
        self._can_send = False
        self._lost = True
        self._client.find_replica(self)

    def on_queued(self, place: QueuePlace) -> None:
        """Send the client the response's position in the queue."""
        self._client.send_frame(queued_frame(self.stream, place))

    def announce_start(self) -> None:
        """Send the start frame again."""
        self._client.send_frame(
            start_frame(self.stream, self.next_index, self.number, duplicate=False)
        )

    def pause(self, now: float) -> None:
        """Pause the delivery to this reader."""
        self._is_paused_by_client = True
        self._pause_delivery(now)

    def unpause(self, now: float) -> None:
        """End the pause. The delivery continues as far as the credit reaches."""
        self._is_paused_by_client = False
        self._unpause_delivery(now)

    def add_credit(self, credit: int, now: float) -> None:
        """Let `credit` more entries be delivered.

        Raises:
            InvalidRequest: that is more than may be granted ahead. Nothing was changed.
        """
        self._paced.grant(credit)
        self._can_send = False
        self._unpause_delivery(now)

    def lift_limits(self, now: float) -> None:
        """Deliver everything from now on, without pause and credit."""
        self._paced.lift()
        self.unpause(now)

    def detach(self) -> None:
        """Stop reading this response."""
        self._end_pause()
        super().detach()

    def look(self, now: float) -> FlowEvent | None:
        """Notify a lagging client. Returns EXCEED if it must be closed, also after a long pause."""
        if self._flow.end_long_pause(now, self.stream.backpressure.parked_at):
            self._end_reader_pause()
            self._exceeded()
            return FlowEvent.EXCEED
        return super().look(now)

    @property
    def _blocked(self) -> bool:
        return self._session.blocked

    def _send_lag_notice(self, lag: Lag) -> None:
        self._client.send_frame(
            LagNotice(
                type="lag",
                session_id=self.stream.channel.session,
                response_id=self.stream.response_id,
                behind_deltas=lag.deltas,
                behind_ms=int(lag.seconds * 1000),
                last_index=self.next_index - 1,
            )
        )

    def _send_all(self) -> None:
        self._outbox.flush()
        cursor = self._paced
        while (entry := cursor.next_entry()) is not None:
            if isinstance(entry, str):
                self._send(self._encoder.delta(entry, cursor.first, cursor.last))
            elif isinstance(entry, Part):
                self._send(self._encoder.event(entry, cursor.first, cursor.last))
            else:
                frame = restart_frame(self.stream, entry, cursor.last)
                self._send(self._session.dialect.write(frame))
            self._measures.frames.value += 1
            if self._session.blocked:
                return

    def _deliver_late(self, now: float) -> None:
        """Deliver what did not go out with its interval, if the transport takes it now."""
        self._steady = False
        if self._lost or not self._flow.may_send:
            self._finish_without_credit()
            return
        self._send_at_interval()
        if self._paced.starved and not self._paced.at_end:
            self._pause_delivery(now)
            return
        self._update_flow(now)
        self._can_send = self._can_send and self._paced.credit is None

    def _watch(self) -> None:
        self._context.registry.slow.add(self._client)

    def _pause_delivery(self, now: float) -> None:
        # With credit, the pause window counts from the reader's position: each grant may start
        # another pause.
        unread = 0 if self._paced.credit is None else self._paced.unread_bytes
        if self._flow.pause(now, self._log.text_bytes - unread):
            self._can_send = False
            self.stream.backpressure.pause_reader()
            self._watch()

    def _unpause_delivery(self, now: float) -> None:
        if self._paced.starved:
            self._finish_without_credit()
        elif not self._is_paused_by_client and self._end_pause():
            self.deliver(now, None)

    def _finish_without_credit(self) -> None:
        """Deliver the end, which needs no credit, unless the client has paused."""
        if (
            self._flow.state is FlowState.PAUSED
            and self._paced.at_end
            and not (self._lost or self._is_paused_by_client)
        ):
            self._finish()

    def _end_pause(self) -> bool:
        if not self._flow.unpause():
            return False
        self._end_reader_pause()
        return True

    def _end_reader_pause(self) -> None:
        self.stream.backpressure.unpause_reader()

    def _finish(self) -> None:
        self._client.send_frame(terminal_frame(self.stream))
        self._client.remove_reader(self)


def start_frame(
    stream: ResponseStream, next_index: int, number: int | None, *, duplicate: bool
) -> ResponseStart:
    """`chat.response.start`. `number` replaces the response's id in the compact subprotocol."""
    return ResponseStart(
        type="chat.response.start",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        message_id=stream.message_id,
        status=stream.state,
        next_index=next_index,
        duplicate=duplicate,
        stream=number,
        epoch=stream.log.epoch_at(next_index - 1),
        via=stream.via,
        history_dropped=stream.history_dropped,
        history_dropped_by=stream.history_dropped_by,
    )
