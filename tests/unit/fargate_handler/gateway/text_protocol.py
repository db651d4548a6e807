from __future__ import annotations

import secrets

import orjson
from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.verified_request import claims_of
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.appended import AppendedContents
from evenflow.stream_core.encoding.port import queued_comment
from evenflow.stream_core.log.response_log import Cursor, ResumePoint
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed


class TextEncoder:
    """Each piece of text as one event, for a client that only appends."""

    opening = b""
    ended = False

    def __init__(self, stream: ResponseStream, point: ResumePoint, most: int) -> None:
        self._stream = stream
        self._text = AppendedContents(stream.log, point.next_index, most)

    @property
    def cursor(self) -> Cursor:
        return self._text.cursor

    @property
    def epoch(self) -> int:
        return self._stream.log.epoch_at(self.cursor.after)

    def take(self) -> bytes:
        if (piece := self._text.take()) is not None:
            return b"data: %b\n\n" % orjson.dumps(piece)
        if self.ended or not self._text.cursor.at_end:
            return b""
        check_completed(self._stream)
        self._text.check_whole()
        self.ended = True
        return b"event: end\ndata: {}\n\n"

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        self._stream = stream
        self._text = self._text.going_on(stream.log, point)

    def queued(self, place: QueuePlace) -> bytes:
        return queued_comment(place)

    def failure(self, error: EvenflowError) -> bytes:
        return b"event: error\ndata: %b\n\n" % orjson.dumps(error.to_body())


class TextEndpoint:
    """`GET /say?text=…`: the answer to the session's next message."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        context = self._context
        channel = claims_of(request).channel
        last = context.orchestrator.last_message_id(channel)
        event = IncomingMessage(channel, secrets.token_hex(8), last, request.query["text"])
        stream, _ = await context.orchestrator.submit(event)
        encoder = TextEncoder(stream, ResumePoint(0), context.limits.frame_characters)
        return await EventStream(context, request, encoder, {}).write(stream)
