"""One WebSocket connection: the edge between picows' callbacks and the pure session machine."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import Any, cast

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from fargate_handler.gateway.acknowledgement import acknowledge
from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.greeting_frames import ready_frame, start_frame
from fargate_handler.gateway.outbox import send_text
from fargate_handler.gateway.resumption import Resumption, resume
from fargate_handler.gateway.websocket_reader import WebSocketReader
from fargate_handler.orchestrator.ingest_event import IngestEvent
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.close_frame import answer_to_close
from stream_core.errors import EvenflowError, NotFound, RateLimited
from stream_core.flow_control import FlowEvent
from stream_core.http_contract import internal_error
from stream_core.messages import (
    ChatMessageFrame,
    ClientMessage,
    Reconnect,
    ResponseAck,
    ResponseCancel,
    ResponseContinue,
    ResponseCredit,
    ResponsePause,
    ResponseResume,
    ServerMessage,
)
from stream_core.paced_cursor import Pace
from stream_core.response_stream import ResponseStream
from stream_core.restart_frame import restart_frame
from stream_core.resume_point import EVERYTHING, ResumePoint, resume_point
from stream_core.session import Close, CloseCode, Received, Session, SessionState, ids_of

_logger = logging.getLogger(__name__)

# A client that doesn't answer our close frame is cut off after so long.
_CLOSE_SECONDS = 5.0
# Deltas stop when the write buffer is full; so many answers to a client's own frames may wait behind them before it is let go.
_MOST_HELD = 64


class WebSocketConnection(WSListener):
    """Feeds the session machine, does what it decides, and delivers to this connection's readers."""

    __slots__ = (
        "_asked_at",
        "_held",
        "_readers",
        "_streams",
        "blocked",
        "context",
        "session",
        "transport",
    )

    def __init__(self, context: GatewayContext, session: Session, asked_at: float) -> None:
        self.context = context
        """The gateway's surroundings. What goes past its outbox must flush that first."""
        self.session = session
        self._asked_at = asked_at
        self._streams = 0
        self._held = 0  # frames that were sent since the socket took no more
        self._readers: dict[str, WebSocketReader] = {}
        self.blocked = False
        """Whether the write buffer is above its high-water mark: cursors wait."""
        self.transport: WSTransport

    @property
    def channel(self) -> Channel:
        """Whose connection it is."""
        return self.session.claims.channel

    @property
    def reading(self) -> bool:
        """Whether a response is being delivered to it."""
        return bool(self._readers)

    # -- what picows calls ---------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        """The handshake is done: register, greet, and begin the heartbeat."""
        context = self.context
        self.transport = transport
        # The kernel's buffer is the write buffer. What it doesn't take would be held here as an object a frame, each several
        # times as large as the frame.
        transport.underlying_transport.set_write_buffer_limits(high=0)
        # The request holds the token; it served its purpose.
        transport.request.headers.clear()
        context.registry.add(self)
        self.tell(ready_frame(context, self.session))
        now = context.monotonic()
        setup = now - self._asked_at + context.clock.lateness
        context.metrics.distribution(catalogue.CONNECTION_SETUP).record(setup * 1000)
        context.clock.put_after(self, self.session.first_heartbeat_in(random.random(), now))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """A frame of the client."""
        now, session, kind = self.context.monotonic(), self.session, frame.msg_type
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._apply(
                session.violation(CloseCode.PROTOCOL, "reserved bits are set, but no extension was agreed"), now
            )
        elif kind in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            data, continues = frame.get_payload_as_bytes(), kind == WSMsgType.CONTINUATION
            self._apply(session.receive_fragment(data, continues=continues, final=frame.fin, now=now), now)
        elif kind == WSMsgType.PONG:
            session.heard(now)
        elif kind == WSMsgType.PING:
            session.heard(now)
            # Who pings without reading gets no more pongs than the write buffer holds.
            if not self.blocked:
                transport.send_pong(frame.get_payload_as_bytes())
        elif kind == WSMsgType.CLOSE:
            if not transport.is_close_frame_sent:
                # Not picows' send_close: without a code it would send the illegal code 0.
                transport.send(WSMsgType.CLOSE, answer_to_close(frame.get_payload_as_bytes()))
            self._release()
            transport.disconnect()
        else:
            self._apply(
                session.violation(CloseCode.UNSUPPORTED_DATA, "binary frames are not part of this protocol"), now
            )

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        """The socket is gone. That is no cancel: responses go on for their grace period."""
        self._release()

    def pause_writing(self) -> None:
        """The client doesn't read as fast as it is written to."""
        self.blocked = True
        for reader in self._readers.values():
            reader.block()

    def resume_writing(self) -> None:
        """There is room again: what was missed goes out, joined."""
        self.blocked = False
        self._held = 0
        now = self.context.monotonic()
        for reader in tuple(self._readers.values()):
            reader.deliver(now, None)

    # -- what the node calls -------------------------------------------------------------------------------------

    def on_due(self, _slot: int) -> None:
        """The heartbeat's turn."""
        if self.session.state is SessionState.CLOSED:
            return
        context = self.context
        beat = self.session.heartbeat(context.monotonic())
        if beat.close is not None:
            dead = context.metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE)
            dead.part += 1
            dead.whole += 1  # at the end of the minute only those that still live are counted
            self._close(beat.close, linger=False)
            return
        if beat.ping:
            self.transport.send_ping()
        context.clock.put_after(self, beat.look_again_in)

    def look_at_readers(self, now: float) -> None:
        """Tell readers that lag, and let those go that lag too far; once a second while any is behind."""
        for reader in tuple(self._readers.values()):
            event = reader.look(now)
            if event is FlowEvent.LAG:
                self.context.measures.lagging.value += 1
            elif event is FlowEvent.EXCEED:
                self.context.measures.too_slow.value += 1
                self.close(
                    CloseCode.TOO_SLOW, f"too slow; resume {reader.stream.response_id} after {reader.next_index - 1}"
                )
                return
        if all(reader.current for reader in self._readers.values()):
            self.context.registry.slow.discard(self)

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """The node is leaving: take no more messages, and tell the client when to come elsewhere."""
        self.session.drain()
        self.tell(Reconnect(type="reconnect", reason=reason, after_ms=after_ms))

    def close(self, code: int, reason: str) -> None:
        """Send a close frame and let the client answer it."""
        self._close(Close(code, reason), linger=True)

    def tell(self, message: ServerMessage) -> None:
        """Send a frame that is no delta."""
        self.send(self.session.dialect.write(message))

    def send(self, frame: bytes) -> None:
        """Send a text frame; a connection that is closing ignores it."""
        self._held += self.blocked
        if self._held > _MOST_HELD:
            self._close(Close(CloseCode.TOO_SLOW, "asks without reading; reconnect and resume"), linger=False)
            return
        self.context.outbox.flush()
        send_text(self.transport, frame)
        self.context.measures.frames.value += 1

    def find_again(self, reader: WebSocketReader) -> None:
        """The reader's copy of its response goes on no more: resume where it goes on now."""
        if self._readers.get(reader.stream.response_id) is not reader:
            return
        message = ResponseResume(
            type="response.resume",
            response_id=reader.stream.response_id,
            after=reader.next_index - 1,
            epoch=reader.epoch,
        )
        self.context.background.run(self._find_again(message))

    async def _find_again(self, message: ResponseResume) -> None:
        try:
            await self._find_and_resume(message, self.context.monotonic(), keeps_pace=True)
        except Exception as error:
            if not isinstance(error, EvenflowError):
                _logger.exception("response %s could not be resumed where it goes on", message.response_id)
            if self.session.state is not SessionState.CLOSED:
                self.close(CloseCode.GOING_AWAY, "a response has changed hands; connect again and resume it")

    def leave(self, reader: WebSocketReader) -> None:
        """The reader has given everything, or is replaced."""
        if self._readers.get(reader.stream.response_id) is reader:
            del self._readers[reader.stream.response_id]
        reader.leave()

    # -- what the client asked for -------------------------------------------------------------------------------

    def _apply(self, received: Received, now: float) -> None:
        for frame in received.frames:
            self.send(frame)
        if received.refused:
            self.context.metrics.labelled(catalogue.MESSAGES_REFUSED).count(received.refused)
        if received.event is not None:
            self._act(received.event, now)
        if received.close is not None:
            self._close(received.close, linger=True)

    def _act(self, message: ClientMessage, now: float) -> None:
        try:
            if isinstance(message, ChatMessageFrame):
                self._in_background(self._submit(message), message)
            elif isinstance(message, ResponseResume):
                self._resume(message, now)
            elif isinstance(message, ResponsePause):
                self._reader(message.response_id).pause(now)
            elif isinstance(message, ResponseContinue):
                self._reader(message.response_id).resume(now)
            elif isinstance(message, ResponseCredit):
                self._add_credit(message, now)
            elif isinstance(message, ResponseCancel):
                self._in_background(self._cancel(message), message)
            else:
                self._acknowledge(message)
        except EvenflowError as error:
            self._refuse(error, message)

    def _in_background(self, work: Coroutine[Any, Any, None], message: ClientMessage) -> None:
        """Do what may have to ask the store or another task, and refuse `message` when it fails."""
        self.context.background.run(self._answered(work, message))

    async def _answered(self, work: Coroutine[Any, Any, None], message: ClientMessage) -> None:
        refusal: EvenflowError | None = None
        try:
            await work
        except EvenflowError as error:
            refusal = error
        except Exception:
            _logger.exception("a frame could not be acted upon")
            refusal = internal_error()
        if refusal is not None and self.session.state is not SessionState.CLOSED:
            self._refuse(refusal, message)

    def _refuse(self, error: EvenflowError, message: ClientMessage) -> None:
        message_id, response_id = ids_of(message)
        self.send(self.session.refuse(error, message_id=message_id, response_id=response_id))

    async def _submit(self, message: ChatMessageFrame) -> None:
        context = self.context
        event = IngestEvent.of_chat(self.session.claims, message)
        stream, duplicate = await context.orchestrator.submit(event)
        if self.session.state is SessionState.CLOSED:
            return  # the client left while its message was accepted: the answer waits for it
        if stream.response_id in self._readers:
            reader = self._readers[stream.response_id]
            self.tell(start_frame(stream, reader.next_index, duplicate, reader.number))
        else:
            self._read(stream, ResumePoint(0), duplicate, Pace(credit=message.credit))

    def _resume(self, message: ResponseResume, now: float) -> None:
        stream = self.context.orchestrator.responses.here(message.response_id, self.channel)
        point = resume_point(stream.log, message.after, message.epoch) if stream is not None else None
        if stream is None or point is None:
            self._in_background(self._find_and_resume(message, now), message)
        else:
            self._resume_at(Resumption(stream, point), now, Pace(credit=message.credit))

    async def _find_and_resume(self, message: ResponseResume, now: float, *, keeps_pace: bool = False) -> None:
        found = await resume(
            self.context, message.response_id, self.channel, message.after, message.epoch, param="after"
        )
        if self.session.state is not SessionState.CLOSED:
            earlier = self._readers.get(found.stream.response_id)
            asked = earlier.pace if keeps_pace and earlier is not None else Pace(credit=message.credit)
            self._resume_at(found, now, asked)

    def _resume_at(self, found: Resumption, now: float, pace: Pace) -> None:
        earlier = self._readers.get(found.stream.response_id)
        if earlier is not None:
            self.leave(earlier)
        self._read(found.stream, found.point, duplicate=True, pace=pace)
        resumed = self.context.monotonic() - now
        self.context.metrics.distribution(catalogue.RESUME).record(resumed * 1000)

    def _read(self, stream: ResponseStream, point: ResumePoint, duplicate: bool, pace: Pace) -> None:
        if len(stream.readers) >= self.context.limits.readers_per_response:
            raise RateLimited(
                "this response has as many readers as it may; close one and resume",
                code="response_readers",
                retry_after_ms=1000,
            )
        dialect = self.session.dialect
        encoder = dialect.encoder(self.channel.session, stream.response_id, self._streams)
        number = self._streams if dialect.numbers_responses else None
        self._streams += 1
        self.tell(start_frame(stream, point.next_index, duplicate, number))
        if point.restarted is not None:
            self.tell(restart_frame(stream, point.restarted, EVERYTHING))
        if self.session.state is SessionState.CLOSED:
            return  # that frame was the one too many for a client that doesn't read
        reader = WebSocketReader(self, stream, point.next_index, encoder, number, self.context.limits, pace)
        self._readers[stream.response_id] = reader
        if pace.paused:
            reader.pause(self.context.monotonic())
        stream.attach(reader)

    async def _cancel(self, message: ResponseCancel) -> None:
        orchestrator = self.context.orchestrator
        await orchestrator.cancel(await orchestrator.find(message.response_id, self.channel))
        reader = self._readers.get(message.response_id)
        if reader is not None:
            # Who pauses, or grants no more, and then cancels wants to hear the end.
            reader.let_go(self.context.monotonic())

    def _acknowledge(self, message: ResponseAck) -> None:
        reader = self._readers.get(message.response_id)
        stream = reader.stream if reader is not None else self._stream(message.response_id)
        self.context.measures.acknowledged.value += acknowledge(stream, message.index)

    def _add_credit(self, message: ResponseCredit, now: float) -> None:
        if message.response_id not in self._readers and self._stream(message.response_id).log.closed:
            return  # it crossed the end on its way
        self._reader(message.response_id).add_credit(message.n, now)

    def _stream(self, response_id: str) -> ResponseStream:
        return self.context.orchestrator.responses.get(response_id, self.channel)

    def _reader(self, response_id: str) -> WebSocketReader:
        reader = self._readers.get(response_id)
        if reader is None:
            self._stream(response_id)
            raise NotFound("this connection doesn't read that response; resume it first", code="response_not_found")
        return reader

    # -- frames and ends -----------------------------------------------------------------------------------------

    def _close(self, close: Close, *, linger: bool) -> None:
        if self.transport.is_close_frame_sent:
            return
        self.context.outbox.flush()
        self.transport.send_close(cast("WSCloseCode", close.code), close.reason[:120])
        self._release()
        if linger:
            asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.transport.disconnect, False)
        else:
            self.transport.disconnect(False)

    def _release(self) -> None:
        self.session.close()
        self.context.registry.remove(self)
        for reader in tuple(self._readers.values()):
            self.leave(reader)
