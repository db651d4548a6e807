"""The Responses API over a WebSocket: `response.create` messages, and each response's events."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from evenflow.fargate_handler.event_log import log_event
from evenflow.fargate_handler.gateway.client_transport import NO_TRANSPORT, ClientTransport
from evenflow.fargate_handler.gateway.connection_events import connection_ended
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.openai.responses.known_responses import (
    EarlierResponses,
    KnownResponse,
)
from evenflow.fargate_handler.gateway.openai.responses.refusals import unsupported, wrong
from evenflow.fargate_handler.gateway.openai.responses.response_request import (
    ResponseCall,
    is_stored,
    read_call,
)
from evenflow.fargate_handler.gateway.openai.responses.responses_endpoint import about_response
from evenflow.fargate_handler.gateway.openai.responses.submitting import submit
from evenflow.fargate_handler.gateway.requests.json_values import check_json
from evenflow.fargate_handler.gateway.requests.submission import (
    Sender,
    leave_response,
    reading_line,
)
from evenflow.fargate_handler.gateway.resumption import Progress, WakingReader, reading
from evenflow.fargate_handler.gateway.websocket_connection import WEBSOCKET
from evenflow.fargate_handler.orchestrator.held_requests import Reading
from evenflow.stream_core.encoders.block_encoder import BlockEncoder
from evenflow.stream_core.encoders.blocks import SealingBlocks
from evenflow.stream_core.encoders.responses.response_events import (
    JsonLines,
    ResponseEvents,
    error_event,
)
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.log.response_stream import ResponseStream
from evenflow.stream_core.metrics.metric_catalogue import CONNECTIONS_OPENED, HTTP_REQUESTS
from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.rights import Right, check_right
from evenflow.stream_core.protocol.client_session import Opcode
from evenflow.stream_core.protocol.ending_frames import NO_CODE, RESET, CloseCode, answer_to_close
from evenflow.stream_core.protocol.errors import EvenflowError, Overloaded, RateLimited
from evenflow.stream_core.protocol.messages import ServerMessage
from evenflow.stream_core.protocol.routes import RESPONSES_WEBSOCKET
from evenflow.stream_core.records.connection_records import (
    BY_CLIENT,
    BY_SERVER,
    CloseRecord,
    RefusalRecord,
)
from evenflow.stream_core.records.event_record import milliseconds
from evenflow.stream_core.records.reader_record import ReaderFigures
from evenflow.stream_core.tenants.charges import NOT_COUNTED, Payer

_PROTOCOL = RESPONSES_WEBSOCKET.protocol
_CREATE = "response.create"
_OF_THE_TRANSPORT = ("type", "stream", "generate", "stream_id")
_MOST_WAITING = 8
# picows' buffer for a frame doubles, and stays for as long as the connection.
_BUFFER_FACTOR = 2
# Of the requests' memory. Above it idle connections with a large buffer are closed.
_CROWDED = 0.5


class ResponsesSocket:
    """One client's WebSocket. Its responses are made one after the other.

    What the client has said not to store is kept while it is connected, so that it can name an
    earlier response.
    """

    counted_as: Channel | None = None
    watches = False

    def __init__(self, context: GatewayContext, sender: Sender) -> None:
        self._context = context
        self._sender = sender
        self.sender = (sender.tenant, sender.address)
        self.payer = Payer(sender.tenant, sender.key, sender.user)
        self._counted = NOT_COUNTED
        # Once it is being closed nothing more is sent, but it may have to be cut.
        self._transport: ClientTransport = NO_TRANSPORT
        self._closing: ClientTransport = NO_TRANSPORT
        self._waiting: asyncio.Queue[tuple[bytes, Reading]] = asyncio.Queue(_MOST_WAITING)
        self._made: set[str] = set()
        self._unstored: list[ResponseStream] = []
        self._current: ResponseStream | None = None
        self._is_submitting = False
        self._writable = asyncio.Event()
        self._writable.set()
        held_requests = context.orchestrator.held_requests
        self._fragments, self._message = bytearray(), Reading(held_requests)
        self._buffer = Reading(held_requests)
        """Counts what picows keeps for frames."""
        self._is_arriving = False
        self._heard_at = self._opened_at = context.monotonic()
        self._closed_with, self._closed_by = RESET, BY_CLIENT
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    # -- called by the WebSocket -------------------------------------------------------------------

    def connected(self, transport: ClientTransport) -> None:
        """The handshake is done."""
        self._transport = transport
        self._context.registry.add(self)
        self._counted = self._context.quotas.connect(self.payer, self._context.monotonic())
        opened = self._context.metrics.labelled(CONNECTIONS_OPENED)
        opened.count(RESPONSES_WEBSOCKET.protocol)
        run = self._context.background.run
        self._tasks = (run(self._serve()), run(self._watch()))

    def receive(self, kind: int, payload: bytes, *, final: bool, reserved: bool) -> None:
        """The client sent a frame."""
        if self._closing is not NO_TRANSPORT:
            return
        self._heard_at = self._context.monotonic()
        if kind == Opcode.PING:
            self._transport.send_pong(payload)
        elif kind == Opcode.CLOSE:
            code = answer_to_close(payload)
            self._note_close(NO_CODE if code is None else code, BY_CLIENT)
            self._transport.send_close(code, "")
            self._transport.disconnect(flush=True)
        elif reserved or kind == Opcode.BINARY:
            self.close(CloseCode.UNSUPPORTED_DATA, "messages are texts")
        elif kind in (Opcode.TEXT, Opcode.CONTINUATION):
            self._is_arriving = False
            self._fragments += payload
            if self._has_room(self._message, len(self._fragments)) and final:
                message, held = bytes(self._fragments), self._message
                self._fragments = bytearray()
                self._message = Reading(self._context.orchestrator.held_requests)
                self._take(message, held)

    def arriving(self, size: int) -> None:
        """A frame is coming, of which `size` bytes are here. No pong can come in between."""
        self._is_arriving = True
        self._heard_at = self._context.monotonic()
        if self._closing is NO_TRANSPORT and _BUFFER_FACTOR * size > self._buffer.bytes:
            self._has_room(self._buffer, _BUFFER_FACTOR * size)

    def disconnected(self) -> None:
        """The socket is gone: nobody hears what is not stored."""
        self._transport = self._closing = NO_TRANSPORT
        connection_ended(self._context.metrics, self._close_record())
        self._context.registry.remove(self)
        self._counted.close()
        self._context.registry.blocked.discard(self)
        self._release_messages()
        for task in self._tasks:
            task.cancel()
        for stream in self._unstored:
            leave_response(self._context, stream)

    def block(self) -> None:
        """The kernel takes no more."""
        self._context.registry.blocked.add(self)
        self._writable.clear()

    def unblock(self) -> None:
        """The kernel takes more again."""
        self._context.registry.blocked.discard(self)
        self._writable.set()

    def malformed(self, code: int) -> None:
        """What came is no WebSocket's frame."""
        self._note_close(code, BY_SERVER)
        self._transport.disconnect(flush=True)

    # -- called by the node ------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether a response is being delivered."""
        return self._current is not None

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken."""
        return self._transport.unsent_bytes

    def look_at_readers(self, now: float) -> None:
        """Nothing: who is behind is given deltas joined, and none is kept for it."""

    def let_go(self) -> None:
        """Close the connection, since the node has no memory for what the client doesn't take."""
        self.close(CloseCode.TOO_SLOW, "too slow; GET the response with starting_after")

    def tell(self, message: ServerMessage) -> None:
        """Nothing: these are frames of another protocol."""

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """The node is leaving: what runs goes on, and nothing more is taken."""
        if self._current is None:
            self.close(CloseCode.GOING_AWAY, reason)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and disconnect."""
        if self._closing is not NO_TRANSPORT:
            return
        self._closing, self._transport = self._transport, NO_TRANSPORT
        self._note_close(code, BY_SERVER)
        self._closing.send_close(code, reason)
        self._closing.disconnect(flush=True)

    # -- responses ---------------------------------------------------------------------------------

    def _has_room(self, held: Reading, size: int) -> bool:
        """Count what the client sends, or close the connection where there is no room for it."""
        most = self._context.limits.request_bytes
        if len(self._fragments) > most:
            self.close(CloseCode.TOO_LARGE, f"a message may have {most:,} bytes")
            return False
        try:
            held.grow_to(size)
        except Overloaded as full:
            self.close(CloseCode.OVER_CAPACITY, full.message)
            return False
        return True

    def _release_messages(self) -> None:
        """Count nothing of what the client has sent any more, unless it is being submitted."""
        held = [self._buffer, self._message]
        while not self._waiting.empty():
            held.append(self._waiting.get_nowait()[1])
        for each in held:
            each.release()

    def _take(self, message: bytes, held: Reading) -> None:
        try:
            self._waiting.put_nowait((message, held))
        except asyncio.QueueFull:
            held.release()
            self._refuse(
                RateLimited(
                    "responses over one WebSocket are made one after the other, and too many "
                    "wait; send this again when one has ended",
                    code="session_in_flight",
                    retry_after_ms=1000,
                )
            )

    async def _serve(self) -> None:
        while True:
            try:
                known = await self._submit(*await self._waiting.get())
                self._current = known.stream
                await self._write(known)
            except EvenflowError as error:
                self._refuse(error)
            finally:
                self._current = None
            if self._context.orchestrator.draining:
                self.close(CloseCode.GOING_AWAY, "this node is leaving; connect again")

    async def _submit(self, message: bytes, held: Reading) -> KnownResponse:
        context = self._context
        context.metrics.labelled(HTTP_REQUESTS).count(RESPONSES_WEBSOCKET.protocol)
        self._is_submitting = True
        try:
            check_right(Right.WRITE, self._sender.may)
            line = reading_line(context, self._sender)
            context.work.check(line)
            context.work.count(line, len(message))
            call = await context.work.read(line, message, _read, held.grow_to)
            earlier = EarlierResponses(context, self._sender, held, self._made)
            known, _ = await submit(context, self._sender, replace(call, kept=True), earlier)
        finally:
            self._is_submitting = False
            held.release()
        self._made.add(str(known.id))
        if not is_stored(known.asked):
            self._unstored.append(known.stream)
        return known

    async def _write(self, known: KnownResponse) -> None:
        """Send the events of a response, to its end."""
        context, stream = self._context, known.stream
        events = ResponseEvents(about_response(context, known), JsonLines(), raises=True)
        most = context.limits.frame_characters
        encoder = BlockEncoder(events, stream, ResumePoint(0), most, SealingBlocks)
        figures = ReaderFigures(stream, _PROTOCOL, WEBSOCKET, 0, context.monotonic())
        with reading(stream, WEBSOCKET, self._sender.user) as reader:
            try:
                await self._send_all(encoder, reader)
            finally:
                read, next_index = reader.stream, encoder.cursor.next_index
                log_event(figures.left(read, next_index, context.monotonic()))

    async def _send_all(self, encoder: BlockEncoder, reader: WakingReader) -> None:
        """Send what the encoder tells, to the end of the response."""
        context, opening = self._context, encoder.opening
        while not encoder.ended:
            try:
                told = encoder.take()
            except EvenflowError as error:
                if opening:
                    raise
                await self._send(encoder.failure(error))
                return
            if told:
                await self._send(opening + told)
                opening = b""
            elif reader.left_behind:
                progress = Progress(encoder.cursor.after, encoder.epoch)
                encoder.go_on(reader.stream, await reader.go_on(context, progress))
            else:
                await reader.wait(context.limits.heartbeat_seconds)

    async def _send(self, events: bytes) -> None:
        """Send one frame an event, as fast as the client takes them."""
        for event in events.splitlines():
            await self._writable.wait()
            self._transport.send_text(event)

    def _note_close(self, code: int, by: str) -> None:
        if self._closed_with == RESET:  # otherwise it is closing already
            self._closed_with, self._closed_by = code, by

    def _close_record(self) -> CloseRecord:
        session = self._sender.session
        return CloseRecord(
            code=self._closed_with,
            by=self._closed_by,
            protocol=_PROTOCOL,
            tenant=self._sender.tenant,
            agent=session.agent if session else None,
            session=session.session_digest if session else None,
            reading=int(self.reading),
            duration_ms=milliseconds(self._context.monotonic() - self._opened_at),
        )

    def _refuse(self, error: EvenflowError) -> None:
        log_event(RefusalRecord.of(error, WEBSOCKET, _CREATE, self._sender.tenant))
        self._transport.send_text(error_event(JsonLines(), error, 0).rstrip())

    async def _watch(self) -> None:
        """Ping the client, and disconnect one that is gone."""
        limits = self._context.limits
        while True:
            await asyncio.sleep(limits.heartbeat_seconds)
            if self._context.monotonic() - self._heard_at > limits.pong_timeout_seconds:
                self._note_close(CloseCode.HEARTBEAT_LOST, BY_SERVER)
                for transport in (self._transport, self._closing):
                    transport.disconnect(flush=False)
                return
            if self._is_idle_with_large_buffer():
                self.close(CloseCode.GOING_AWAY, "the node needs the memory; connect again")
                return
            self._transport.send_ping()

    def _is_idle_with_large_buffer(self) -> bool:
        requests = self._context.orchestrator.memory.requests
        crowded = requests.bytes > _CROWDED * requests.most
        begun = self._is_submitting or self.reading
        busy = self._is_arriving or self._fragments or self._waiting.qsize() or begun
        return crowded and self._buffer.bytes > 0 and not busy


def _read(message: bytes | bytearray) -> ResponseCall:
    """Read a message.

    Raises:
        InvalidRequest: it is wrong, or asks for what is not served here.
    """
    try:
        body: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise wrong("a message must be a JSON object", "type")
    if body.get("type") != _CREATE:
        raise unsupported(f"a message's type must be {_CREATE}", "type")
    if body.get("generate") is False:
        raise unsupported("generate: false prepares nothing here; leave it out", "generate")
    if body.get("stream_id") is not None:
        raise unsupported(
            "responses are made one after the other; open more WebSockets", "stream_id"
        )
    if body.get("background"):
        raise unsupported("a response over a WebSocket has a reader; use POST", "background")
    for name in _OF_THE_TRANSPORT:
        body.pop(name, None)
    try:
        text = orjson.dumps(body)
    except TypeError:
        for name, value in body.items():
            check_json(value, name)
        raise wrong("a message must not be nested that deep", "type") from None
    return read_call(text)
