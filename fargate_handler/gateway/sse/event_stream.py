"""Answers a request with server-sent events (SSE), in any protocol that has an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import ClockTimer, Deadline
from evenflow.fargate_handler.gateway.connections.rate_keys import charge_answer
from evenflow.fargate_handler.gateway.connections.resumption import Progress, resume
from evenflow.fargate_handler.gateway.http.answers import VIA_HEADER, heartbeat_bytes
from evenflow.fargate_handler.gateway.http.verified_request import GRANT, protocol_of, user_of
from evenflow.fargate_handler.gateway.sse.event_reader import (
    STILL_HERE,
    EncodeStart,
    EventReader,
)
from evenflow.stream_core.base.errors import AuthenticationFailed, EvenflowError, TooSlow
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, LogEncoder
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS
from evenflow.stream_core.tenants.charges import NOT_COUNTED, Caller

if TYPE_CHECKING:
    from evenflow.fargate_handler.gateway.http.connection import HttpConnection

_PEER = "peer"
# A comment, so that other clients ignore it.
_RECONNECT = b": reconnect %d\n"
EVENT_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}


class EventStream:
    """The answer to one request, in the protocol of an encoder.

    Args:
        headers: further headers of the answer.
        at_once: whether the head is sent at once. Otherwise it waits for the first event or
            heartbeat, so that an earlier error has a status.
        for_node: whether another node reads it for a replica, and finds the next owner itself: the
            stream is cut when this replica ends.
        deadline: of the response's end.
        heartbeat: sent after an interval without events.
        start: encodes the answer's start event. None: the protocol has none.
        payer: the account whose connection limit it counts for. None: it is not counted, such as
            the answer to a message, which is counted itself.
    """

    def __init__(
        self,
        context: GatewayContext,
        request: web.Request,
        encoder: LogEncoder,
        headers: Mapping[str, str],
        *,
        at_once: bool = False,
        for_node: bool = False,
        deadline: Deadline | None = None,
        heartbeat: bytes = STILL_HERE,
        start: EncodeStart | None = None,
        payer: Caller | None = None,
    ) -> None:
        self._context = context
        self.grant: AccessGrant | None = None if for_node else request.get(GRANT)
        """The credential of its client. None: another node reads."""
        self._payer = payer
        self._protocol = _PEER if for_node else protocol_of(request)
        self._user = None if for_node else user_of(request)
        self._encoder = encoder
        self._at_once = at_once
        self._for_node = for_node
        self._deadline = deadline or Deadline(None, context.monotonic)
        blank = b" " * heartbeat_bytes(request)
        self._heartbeat = heartbeat if len(blank) == 1 else b":%b\n%b" % (blank, heartbeat)
        self._start = start
        self._answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS | dict(headers))
        self._socket = AnswerSocket(context, request, self._answer)
        self._reconnect = b""
        self._request = request

    async def write(self, stream: ResponseStream) -> web.StreamResponse:
        """Write the response to its end. `stream` is the replica that the encoder reads.

        Raises:
            EvenflowError: before the head was sent. Later errors are written into the stream.
        """
        quotas, counted = self._context.quotas, NOT_COUNTED
        # What is in the log is sent at once.
        replay = stream.log.bytes_from(self._encoder.cursor.after + 1)
        charge_answer(self._request, self._context, replay)
        if self._payer is not None:
            quotas.check_connection(self._payer)
            counted = quotas.connect(self._payer, self._context.monotonic())
        if not self._for_node:
            self._context.registry.streams.add(self)
        self._context.measures.event_streams += 1
        try:
            try:
                await self._write(stream)
            except EvenflowError as error:
                if not self._answer.prepared:
                    raise
                if isinstance(error, AuthenticationFailed):
                    self._socket.abort()  # a client with a new token may resume
                else:
                    await self._send_error(error)
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            self._context.registry.streams.discard(self)
            self._context.measures.event_streams -= 1
            counted.close()
        return self._answer

    def ask_to_reconnect(self, _reason: str, after_ms: int) -> None:
        """Send a comment with the time at which the client is to open its next stream."""
        self._reconnect = _RECONNECT % after_ms
        if self._socket.open and not self._socket.blocked:
            self._context.outbox.flush()
            self._socket.send(self._reconnect)

    def revoke(self, error: EvenflowError) -> None:
        """End the stream, since its credential is no longer valid."""
        if self._socket.reader is not None:
            self._socket.reader.end_with(error)

    async def _write(self, stream: ResponseStream) -> None:
        encoder = self._encoder
        while await self._read(stream) and not self._for_node:
            progress = Progress(encoder.cursor.after, encoder.epoch, LAST_EVENT_ID)
            stream, point = await resume(
                self._context, stream.response_id, stream.channel, progress
            )
            encoder.go_on(stream, point)

    async def _read(self, stream: ResponseStream) -> bool:
        """Read one replica. Returns whether another one has the rest."""
        reader = EventReader(
            self._context,
            stream,
            self._encoder,
            self._socket,
            self._deadline,
            self._heartbeat,
            self._protocol,
            self._user,
            self._start,
        )
        reader.attach()
        self._socket.read_by(reader)
        try:
            if self._at_once and not self._answer.prepared:
                await self._open(reader, b"")
            while not (reader.over or reader.left_behind):
                if reader.error is not None:
                    raise reader.error
                if not self._answer.prepared and (first := reader.first()):
                    await self._open(reader, first)
                else:
                    await reader.woken()
            return not reader.over
        finally:
            self._socket.read_by(None)
            reader.detach()

    async def _open(self, reader: EventReader, first: bytes) -> None:
        self._answer.headers[VIA_HEADER] = reader.stream.via
        await self._socket.send_head(self._encoder.opening + self._reconnect + first)
        reader.unblock()
        if reader.stream.place is not None:
            reader.on_queued(reader.stream.place)
        if reader.stream.history_dropped:
            reader.announce_start()

    async def _send_error(self, error: EvenflowError) -> None:
        """Send the error with which the stream ends, if the client still takes it."""
        if isinstance(error, TooSlow):
            self._answer.force_close()
        self._context.outbox.flush()
        self._socket.send(self._encoder.failure(error))
        patience = ClockTimer(self._socket.abort)
        self._context.clock.put_after(patience, CLOSE_SECONDS)
        try:
            await self._socket.drain()
        finally:
            patience.stop()


class AnswerSocket:
    """The socket of an answer, into which its body is written in the clock's turns.

    aiohttp sends the head, and the end. Chunks in between go straight to the transport: through
    aiohttp each would take three calls and a wait.
    """

    def __init__(
        self, context: GatewayContext, request: web.Request, answer: web.StreamResponse
    ) -> None:
        self.reader: EventReader | None = None
        self._background = context.background
        self._request = request
        self._protocol = cast("HttpConnection", request.protocol)
        self._answer = answer
        self._writer: AbstractStreamWriter | None = None
        self._chunked = True
        self._draining = False

    def read_by(self, reader: EventReader | None) -> None:
        """Set the reader of this socket."""
        self.reader = reader
        self._protocol.end_stream = None if reader is None else reader.close_for_memory
        if reader is not None:
            self._protocol.when_half_closed(reader.hurry)

    @property
    def open(self) -> bool:
        """Whether the head was sent."""
        return self._writer is not None

    @property
    def blocked(self) -> bool:
        """Whether the kernel's buffer is full."""
        return self._protocol.writing_paused

    async def send_head(self, body: bytes) -> None:
        """Send the head, and the beginning of the body.

        Raises:
            ConnectionError: the client has disconnected.
        """
        transport = self._protocol.transport
        if transport is None:
            raise ConnectionResetError("the client has left")
        # The kernel's buffer is the write buffer. Bytes beyond it would be kept here, an object for
        # each event.
        transport.set_write_buffer_limits(high=0)
        self._writer = await self._answer.prepare(self._request)
        # HTTP/1.0 has no chunks: there the body ends with the connection.
        self._chunked = self._answer.headers.get("Transfer-Encoding") == "chunked"
        self.send(body)

    def send(self, events: bytes) -> None:
        """Send a part of the body, which may be empty. Ignored once the client has disconnected."""
        protocol = self._protocol
        transport = protocol.transport
        if transport is None or not events:
            return
        transport.write(b"%x\r\n%b\r\n" % (len(events), events) if self._chunked else events)
        if protocol.writing_paused and (reader := self.reader) is not None:
            reader.block()
            if not self._draining:
                self._draining = True
                self._background.run(self._unblock())

    async def drain(self) -> None:
        """Wait until the kernel has taken everything."""
        if self._writer is not None:
            await self._writer.drain()

    def abort(self) -> None:
        """Disconnect the client at once."""
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    async def _unblock(self) -> None:
        try:
            await self.drain()
        except ConnectionError:
            return  # the client has disconnected
        self._draining = False
        if self.reader is not None:
            self.reader.unblock()
