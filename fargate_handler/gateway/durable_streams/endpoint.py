"""`GET /streams/{response_id}`: a response by the protocol of Durable Streams, which only reads it.

https://github.com/durable-streams/durable-streams/blob/main/PROTOCOL.md is that protocol.
"""

from __future__ import annotations

import secrets

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, Resumption, reading
from evenflow.fargate_handler.gateway.http.answers import (
    VIA_HEADER,
    check_room,
    error_answer,
    kept_by_caches,
)
from evenflow.fargate_handler.gateway.http.connection import when_half_closed
from evenflow.fargate_handler.gateway.http.verified_request import (
    claims_of,
    payer_of,
    requested_resumption,
    user_of,
)
from evenflow.fargate_handler.gateway.sse.event_reader import PROBE_SECONDS
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import EventId
from evenflow.stream_core.http.http_contract import NEVER_CACHED
from evenflow.stream_core.http.routes import STREAM
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.durable_streams.encoder import (
    MessageBatch,
    StreamEvents,
    chunk_of,
    last_control,
    tail_of,
)
from evenflow.stream_core.protocols.durable_streams.offsets import (
    BEGINNING,
    CURSORS_AHEAD,
    NOW,
    live_cursor,
    offset_of,
    read_offset,
)
from evenflow.stream_core.records.reader_record import ReaderFigures

LONGEST_WAIT_SECONDS = 20.0
_NEXT_OFFSET, _CURSOR = "Stream-Next-Offset", "Stream-Cursor"
_UP_TO_DATE = {"Stream-Up-To-Date": "true"}
_CLOSED = {"Stream-Closed": "true"}
_TYPE = "application/json"
# A chunk at the tail may differ the next time: a cache revalidates it, and gets a 304.
_ASKED_AGAIN = {"Cache-Control": "no-cache", "Vary": "Authorization"}
_FOR_BROWSERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Without the `charset` that other event streams say: the protocol names the bare type.
_EVENTS = _FOR_BROWSERS | {"Content-Type": "text/event-stream"}
_LONG_POLL, _SSE = "long-poll", "sse"


class StreamsEndpoint:
    """Serves responses as streams of JSON messages: in chunks, by long poll, or live."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The messages after an offset. To `HEAD`, only where the stream ends."""
        try:
            return await self._answer(request)
        except EvenflowError as error:
            answer = error_answer(error)
            answer.headers.update(_FOR_BROWSERS)
            return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            headers = NEVER_CACHED | _FOR_BROWSERS | _place(tail_of(await self._stream(request)))
            return web.Response(headers=headers, content_type=_TYPE)
        offset, live = _asked(request)
        resumption, has = await self._find(request, offset)
        if live == _SSE:
            return await self._events(request, resumption, has)
        if live == _LONG_POLL:
            return await self._poll(request, resumption, has)
        if offset == NOW:
            return _answered(b"[]", NEVER_CACHED | _UP_TO_DATE | _place(has))
        figures = self._reading(resumption, "http")
        return self._cacheable(
            request, resumption, offset, self._chunk(resumption, has, figures), {}
        )

    async def _stream(self, request: web.Request) -> ResponseStream:
        channel = claims_of(request).channel
        return await self._context.orchestrator.find(request.match_info["response_id"], channel)

    async def _find(self, request: web.Request, offset: str) -> tuple[Resumption, EventId]:
        """The response, where its reader goes on, and what that reader has."""
        if offset == NOW:
            stream = await self._stream(request)
            return Resumption(stream, ResumePoint(stream.log.next_index)), tail_of(stream)
        has = read_offset(offset)
        progress = Progress(has.last_index, has.epoch, "offset")
        return await requested_resumption(request, self._context, progress), has

    async def _poll(
        self, request: web.Request, resumption: Resumption, has: EventId
    ) -> web.Response:
        """A chunk, as soon as there is one."""
        cursor = {_CURSOR: self._cursor(request)}
        figures = self._reading(resumption, "poll")
        if not _has_all(resumption, has):
            await self._wait(resumption, request)
        chunk = self._chunk(resumption, has, figures)
        if chunk.body != b"[]":
            return self._cacheable(request, resumption, offset_of(has), chunk, cursor)
        cursor_headers = _place(chunk.has) if chunk.has.end else _place(chunk.has) | cursor
        return web.Response(
            status=204, headers=NEVER_CACHED | _FOR_BROWSERS | _UP_TO_DATE | cursor_headers
        )

    async def _wait(self, resumption: Resumption, request: web.Request) -> None:
        context, (stream, point) = self._context, resumption
        patience = min(LONGEST_WAIT_SECONDS, context.limits.poll_timeout_max_ms / 1000)
        give_up_at = context.monotonic() + patience
        user = user_of(request)
        with context.measures.waiting_poll(), reading(stream, "poll", user) as reader:

            def hurry() -> None:
                nonlocal give_up_at
                give_up_at = min(give_up_at, context.monotonic() + PROBE_SECONDS)
                reader.wake()

            when_half_closed(request, hurry)
            while not (
                stream.log.next_index > point.next_index
                or point.restarted
                or stream.log.closed
                or reader.left_behind  # the next poll finds the replica that has the rest
            ):
                if not await reader.wait(give_up_at - context.monotonic()):
                    return

    async def _events(
        self, request: web.Request, resumption: Resumption, has: EventId
    ) -> web.StreamResponse:
        context, (stream, point) = self._context, resumption
        if _has_all(resumption, has):
            return web.Response(body=last_control(has), headers=NEVER_CACHED | _EVENTS)
        encoder = StreamEvents(
            stream, point, context.limits.frame_characters, self._cursor(request)
        )
        payer = payer_of(request, context.access)
        answer = EventStream(context, request, encoder, _EVENTS, at_once=True, payer=payer)
        return await answer.write(stream)

    def _reading(self, resumption: Resumption, transport: str) -> ReaderFigures:
        stream, point = resumption
        now = self._context.monotonic()
        return ReaderFigures(stream, STREAM.protocol.name, transport, point.next_index, now)

    def _chunk(self, resumption: Resumption, has: EventId, figures: ReaderFigures) -> MessageBatch:
        if _has_all(resumption, has):
            return MessageBatch(b"[]", has, up_to_date=True)
        check_room(self._context, resumption.stream.log.bytes_from(resumption.point.next_index))
        chunk = chunk_of(*resumption)
        next_index = chunk.has.last_index + 1
        self._context.measures.delivered.value += next_index - resumption.point.next_index
        log_event(figures.answered_record(resumption.stream, next_index, self._context.monotonic()))
        return chunk

    def _cacheable(
        self,
        request: web.Request,
        resumption: Resumption,
        offset: str,
        chunk: MessageBatch,
        cursor_headers: dict[str, str],
    ) -> web.Response:
        """The answer with a chunk, and how long caches may keep it."""
        stream = resumption.stream
        # After a retraction the same offsets have other content.
        version = f":{stream.log.withdrawals}" if stream.log.withdrawals else ""
        tag = f'"{stream.response_id}:{offset}:{offset_of(chunk.has)}{version}"'
        cache_headers = kept_by_caches(self._context, stream)
        if not chunk.lasts and cache_headers is not NEVER_CACHED:
            cache_headers = _ASKED_AGAIN
        headers = (
            cache_headers
            | _place(chunk.has)
            | cursor_headers
            | {"ETag": tag, VIA_HEADER: stream.via}
        )
        if chunk.up_to_date:
            headers |= _UP_TO_DATE
        if tag in map(str.strip, request.headers.get("If-None-Match", "").split(",")):
            return web.Response(status=304, headers=headers | _FOR_BROWSERS)
        return _answered(chunk.body, headers)

    def _cursor(self, request: web.Request) -> str:
        ahead = 1 + secrets.randbelow(CURSORS_AHEAD)
        return live_cursor(self._context.wall_time(), request.query.get("cursor"), ahead)


def _asked(request: web.Request) -> tuple[str, str | None]:
    """The parameters `offset` and `live`. Without an offset, only a read that isn't live begins."""
    offsets, live = request.query.getall("offset", []), request.query.get("live")
    if live not in (None, _LONG_POLL, _SSE):
        raise _wrong(f"live must be {_LONG_POLL} or {_SSE}, not {live[:32]!r}", "live")
    if len(offsets) > 1 or (live is not None and not offsets):
        raise _wrong("offset must be there once", "offset")
    return (offsets[0] if offsets else BEGINNING), live


def _wrong(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(what, code="invalid_field", param=param)


def _has_all(resumption: Resumption, has: EventId) -> bool:
    """Whether the reader has everything, with the end."""
    return has.end and resumption.stream.log.closed and not resumption.point.restarted


def _place(has: EventId) -> dict[str, str]:
    """The headers that say where the reader is."""
    return {_NEXT_OFFSET: offset_of(has)} | (_CLOSED if has.end else {})


def _answered(body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(body=body, headers=headers | _FOR_BROWSERS, content_type=_TYPE)
