"""The Responses API over a WebSocket: `response.create` messages, and each response's events."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.rate_keys import throttle
from evenflow.fargate_handler.gateway.connections.resumption import Progress, WakingReader, reading
from evenflow.fargate_handler.gateway.http.senders import Sender, rate_keys_of, reading_line
from evenflow.fargate_handler.gateway.openai_responses.endpoint import about_response
from evenflow.fargate_handler.gateway.openai_responses.known_responses import (
    EarlierResponses,
    KnownResponse,
)
from evenflow.fargate_handler.gateway.openai_responses.request import (
    ResponseCall,
    is_stored,
    read_call,
)
from evenflow.fargate_handler.gateway.openai_responses.request_errors import unsupported, wrong
from evenflow.fargate_handler.gateway.openai_responses.submitting import submit
from evenflow.fargate_handler.gateway.requests.submission import (
    leave_response,
)
from evenflow.fargate_handler.gateway.websocket.socket_connection import SocketConnection
from evenflow.fargate_handler.gateway.websocket.websocket_transport import WEBSOCKET
from evenflow.fargate_handler.orchestrator.request_memory import Reading
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RateLimited,
)
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.blocks import SealingBlocks
from evenflow.stream_core.http.routes import RESPONSES_WEBSOCKET
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.metrics.metric_catalogue import HTTP_REQUESTS
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.connection_states import Command, Output, Received
from evenflow.stream_core.protocols.evenflow.frame_intake import RejectedMessage
from evenflow.stream_core.protocols.evenflow.messages import ServerMessage
from evenflow.stream_core.protocols.openai_responses.encoder import JsonLines, ResponseEvents
from evenflow.stream_core.protocols.openai_responses.socket_session import CREATE, ResponsesSession
from evenflow.stream_core.records.reader_record import ReaderFigures
from evenflow.stream_core.tenants.charges import Caller

_PROTOCOL = RESPONSES_WEBSOCKET.protocol.name
_TRANSPORT_FIELDS = ("type", "stream", "generate", "stream_id")
_MAX_WAITING = 8
_MAX_UNSTORED = 64


class ResponsesSocket(SocketConnection):
    """The WebSocket of one client. Its responses are generated one after the other.

    While the client is connected, it can refer to its newest 64 responses that are not stored. They
    take memory like all ended responses.
    """

    __slots__ = (
        "_current",
        "_is_submitting",
        "_message_queue",
        "_sender",
        "_serving",
        "_unstored",
        "_writable",
        "rate_keys",
    )

    context: GatewayContext
    session: ResponsesSession

    def __init__(self, context: GatewayContext, sender: Sender, asked_at: float) -> None:
        check = partial(context.access.check_grant, sender.grant)
        session = ResponsesSession(context.limits, asked_at, check)
        sender_key = context.access.sender(sender.tenant, sender.address)
        super().__init__(context, session, asked_at, sender_key)
        self._sender = sender
        self.rate_keys = rate_keys_of(sender, context)
        """The caller that its handshake and its messages are charged to."""
        self._message_queue: asyncio.Queue[tuple[bytes, Reading]] = asyncio.Queue(_MAX_WAITING)
        # The ids of responses that are not stored, by their public ids, oldest first.
        self._unstored: OrderedDict[str, str] = OrderedDict()
        self._current: ResponseStream | None = None
        self._is_submitting = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._serving: asyncio.Task[None] | None = None

    # -- called by the transport -------------------------------------------------------------------

    def block(self) -> None:
        """Stop sending: the kernel accepts no more frames."""
        super().block()
        self._writable.clear()

    def unblock(self) -> None:
        """Resume sending: the kernel accepts frames again."""
        super().unblock()
        self._writable.set()

    # -- called by the node ------------------------------------------------------------------------

    @property
    def channel(self) -> Channel | None:
        """The channel of the client's session token. None: it has none."""
        return self._sender.session

    @property
    def counted_as(self) -> Channel | None:
        """The session that the connection counts for. None: the client has no session token."""
        return self._sender.session

    @property
    def grant(self) -> AccessGrant:
        """The credential of its client."""
        return self._sender.grant

    @property
    def payer(self) -> Caller:
        """The tenant, key and user that it and its messages are counted for."""
        return self._sender.payer._replace(tenant=self.sender[0])

    @property
    def protocol(self) -> str:
        """The name of its protocol in the log and in metrics."""
        return _PROTOCOL

    @property
    def watches(self) -> bool:
        """False: the connection needs the right to write."""
        return False

    @property
    def responses_read(self) -> int:
        """The number of responses that are being delivered: 0 or 1."""
        return int(self._current is not None)

    def look_at_readers(self, now: float) -> None:
        """Do nothing: a slow reader gets joined deltas, and nothing is buffered for it."""

    def close_for_memory(self) -> None:
        """Close the connection: the node has no memory for what the client does not take."""
        self.close(CloseCode.TOO_SLOW, "too slow; GET the response with starting_after")

    def notify(self, message: ServerMessage) -> None:
        """Do nothing: these are frames of another protocol."""

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """Finish the running response, and accept no more messages: the node is leaving."""
        self._do(self.session.drain())
        if self._current is None:
            self.close(CloseCode.GOING_AWAY, reason)

    # -- its session -------------------------------------------------------------------------------

    def _begin(self, now: float) -> Iterable[Output]:
        self._serving = self.context.background.run(self._serve())
        return self.session.begin(random.random(), now)

    def _act(self, received: Command | Received) -> None:
        """Queue a message."""
        if isinstance(received, Command):
            return
        request_memory = Reading(self.context.orchestrator.request_memory)
        try:
            request_memory.grow_to(len(received.data))
            self._message_queue.put_nowait((received.data, request_memory))
        except Overloaded as full:
            self._reject(full)
        except asyncio.QueueFull:
            request_memory.release()
            too_many = RateLimited(
                "responses over one WebSocket are made one after the other, and too many "
                "wait; send this again when one has ended",
                code="session_in_flight",
                retry_after_ms=1000,
            )
            self._reject(too_many, is_violation=True)

    def _stop(self) -> None:
        """Release the responses that are not stored: no client can read them any more."""
        while not self._message_queue.empty():
            self._message_queue.get_nowait()[1].release()
        if self._serving is not None:
            self._serving.cancel()
        for response_id in self._unstored.values():
            self._forget(response_id)

    @property
    def _is_busy(self) -> bool:
        return super()._is_busy or self._is_submitting or not self._message_queue.empty()

    def _reject(self, error: EvenflowError, *, is_violation: bool = False) -> None:
        is_violation |= isinstance(error, InvalidRequest | NotFound)
        rejection = RejectedMessage(error, CREATE, is_violation=is_violation)
        self._do(self.session.reject(rejection, self.context.monotonic()))

    # -- responses ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            await self._answer_next()
            if self.context.orchestrator.draining:
                self.close(CloseCode.GOING_AWAY, "this node is leaving; connect again")

    async def _answer_next(self) -> None:
        """Wait for a message, and answer it. No reference to it is left afterwards."""
        try:
            response = await self._submit(*await self._message_queue.get())
            self._current = response.stream
            await self._write(response)
        except EvenflowError as error:
            self._reject(error)
        finally:
            self._current = None

    async def _submit(self, message: bytes, request_memory: Reading) -> KnownResponse:
        context = self.context
        context.metrics.labelled(HTTP_REQUESTS).count(_PROTOCOL)
        self._is_submitting = True
        try:
            await throttle(context, self.rate_keys, RESPONSES_WEBSOCKET.terms.cost)
            context.access.check_grant(self.grant)
            line = reading_line(context, self._sender)
            context.work.check(line)
            context.work.count(line, len(message))
            call = await context.work.read(line, message, _read, request_memory.grow_to)
            earlier = EarlierResponses(context, self._sender, request_memory, self._unstored)
            response, _ = await submit(context, self._sender, replace(call, is_kept=True), earlier)
        finally:
            self._is_submitting = False
            request_memory.release()
        if not is_stored(response.request):
            self._unstored[str(response.id)] = response.stream.response_id
            if len(self._unstored) > _MAX_UNSTORED:
                self._forget(self._unstored.popitem(last=False)[1])
        return response

    def _forget(self, response_id: str) -> None:
        stream = self.context.orchestrator.responses.of_any_session(response_id)
        if stream is not None:
            leave_response(self.context, stream)

    async def _write(self, response: KnownResponse) -> None:
        """Send the events of a response, to its end."""
        context, stream = self.context, response.stream
        events = ResponseEvents(about_response(context, response), JsonLines(), raises=True)
        max_characters = context.limits.frame_characters
        encoder = BlockEncoder(events, stream, ResumePoint(0), max_characters, SealingBlocks)
        figures = ReaderFigures(stream, _PROTOCOL, WEBSOCKET, 0, context.monotonic())
        with reading(stream, WEBSOCKET, self._sender.user) as reader:
            try:
                await self._send_all(encoder, reader)
            finally:
                final_stream, next_index = reader.stream, encoder.cursor.next_index
                log_event(figures.left_record(final_stream, next_index, context.monotonic()))

    async def _send_all(self, encoder: BlockEncoder, reader: WakingReader) -> None:
        """Send the encoder's events, to the end of the response."""
        context, opening = self.context, encoder.opening
        while not encoder.ended:
            try:
                events = encoder.take()
            except EvenflowError as error:
                if opening:
                    raise
                await self._send(encoder.failure(error))
                return
            if events:
                await self._send(opening + events)
                opening = b""
            elif reader.left_behind:
                progress = Progress(encoder.cursor.after, encoder.epoch)
                encoder.go_on(reader.stream, await reader.switch_replica(context, progress))
            else:
                await reader.wait(context.limits.heartbeat_seconds)

    async def _send(self, events: bytes) -> None:
        """Send each event as a frame, as fast as the client reads them."""
        for event in events.splitlines():
            await self._writable.wait()
            self._do(self.session.send(event))


def _read(message: bytes | bytearray) -> ResponseCall:
    """Read a message.

    Raises:
        InvalidRequest: it is wrong, or requests a function that is not served here.
    """
    try:
        body: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise wrong("a message must be a JSON object", "type")
    if body.get("type") != CREATE:
        raise unsupported(f"a message's type must be {CREATE}", "type")
    if body.get("generate") is False:
        raise unsupported("generate: false prepares nothing here; leave it out", "generate")
    if body.get("stream_id") is not None:
        raise unsupported(
            "responses are made one after the other; open more WebSockets", "stream_id"
        )
    if body.get("background"):
        raise unsupported("a response over a WebSocket has a reader; use POST", "background")
    for name in _TRANSPORT_FIELDS:
        body.pop(name, None)
    try:
        text = orjson.dumps(body)
    except TypeError:
        for name, value in body.items():
            check_json(value, name)
        raise wrong("a message must not be nested this deeply", "type") from None
    return read_call(text)
