"""A cursor of one WebSocket connection over one response. `deliver` is the hot path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from picows import WSMsgType

from stream_core.flow_control import FlowEvent, FlowState, ReaderFlow
from stream_core.limits import Limits
from stream_core.messages import LagNotice, ResponseRestarted
from stream_core.response_log import Cursor, Restart
from stream_core.response_stream import ResponseStream
from stream_core.subprotocols import DeltaEncoder
from stream_core.terminal_frame import terminal_frame

if TYPE_CHECKING:
    from fargate_handler.gateway.websocket_connection import WebSocketConnection

_TEXT = WSMsgType.TEXT
_CURRENT = FlowState.CURRENT


class WebSocketReader:
    """Delivers a response to a connection: in its interval when the socket takes it, joined later when not.

    Args:
        next_index: the first index to deliver.
    """

    __slots__ = ("_connection", "_delivered_at", "_encoder", "_flow", "_measures", "_seen", "_send", "cursor", "stream")

    def __init__(
        self,
        connection: WebSocketConnection,
        stream: ResponseStream,
        next_index: int,
        encoder: DeltaEncoder,
        limits: Limits,
    ) -> None:
        self.stream = stream
        self.cursor = Cursor(stream.log, next_index, limits.frame_characters)
        self._connection = connection
        self._send = connection.transport.send
        self._encoder = encoder
        self._flow = ReaderFlow(limits)
        self._measures = connection.measures
        self._seen = stream.log.next_index
        self._delivered_at = 0.0

    @property
    def holds_model(self) -> bool:
        """See `Reader.holds_model`."""
        return self._flow.state is FlowState.PAUSED and self._flow.holds_model(self.stream.log.text_bytes)

    def deliver(self, now: float) -> None:
        """See `Reader.deliver`."""
        connection, flow, log, measures = self._connection, self._flow, self.stream.log, self._measures
        head = log.next_index
        new = head - self._seen
        self._seen = head
        measures.due.whole += new
        if connection.blocked or not flow.may_send:
            self._wait(now, new)
            return
        cursor, send, encoder = self.cursor, self._send, self._encoder
        before, frames = cursor.next_index, 0
        while (taken := cursor.take()) is not None:
            if isinstance(taken, str):
                send(_TEXT, encoder.delta(taken, cursor.first, cursor.last))
            else:
                self._send_restart(taken)
            frames += 1
            if connection.blocked:
                break
        measures.frames.value += frames
        measures.delivered.value += cursor.next_index - before
        if connection.blocked:
            self._wait(now, 0)
            return
        if flow.state is not _CURRENT:
            flow.caught_up()
        elif self._delivered_at and frames:
            gap = now - self._delivered_at - self.stream.expected_gap
            measures.jitter.record(gap * 1000 if gap > 0 else gap * -1000)
        self._delivered_at = now
        if log.state is not None:
            self._finish()

    def pause(self, now: float) -> None:
        """Hold the delivery to this reader."""
        self._flow.pause(now, self.stream.log.text_bytes)
        self._connection.registry.slow.add(self._connection)

    def resume(self, now: float) -> None:
        """Let the delivery go on."""
        self._flow.resume()
        self._delivered_at = 0.0
        self.deliver(now)

    def look(self, now: float) -> FlowEvent | None:
        """Tell the reader that it lags, or say EXCEED when it must go; once a second."""
        flow, log = self._flow, self.stream.log
        if flow.pause_expired(now):
            return FlowEvent.EXCEED
        lag = flow.measure(now, self.cursor.behind, log.text_bytes)
        event = flow.check(lag)
        if event is not None:
            notice = LagNotice(
                type="lag",
                session_id=self.stream.channel.session,
                response_id=self.stream.response_id,
                behind_deltas=lag.deltas,
                behind_ms=int(lag.seconds * 1000),
            )
            self._connection.send(notice.to_json())
        if event is FlowEvent.EXCEED:
            self._measures.due.part += self.cursor.behind
        return event

    @property
    def current(self) -> bool:
        """Whether nothing needs looking at."""
        return self._flow.state is _CURRENT

    def _wait(self, now: float, missed: int) -> None:
        flow = self._flow
        self._delivered_at = 0.0
        if flow.may_send:
            self._measures.due.part += missed
            flow.fell_behind(now, self.stream.log.text_bytes)
        self._connection.registry.slow.add(self._connection)

    def _send_restart(self, restart: Restart) -> None:
        frame = ResponseRestarted(
            type="chat.response.restarted",
            session_id=self.stream.channel.session,
            response_id=self.stream.response_id,
            from_index=restart.from_index,
            attempt=restart.attempt,
            index=self.cursor.last,
        )
        self._send(_TEXT, frame.to_json())

    def _finish(self) -> None:
        self._connection.send(terminal_frame(self.stream).to_json())
        self._connection.leave(self)
