"""`GET /chat/message/{response_id}/events`: the log as server-sent events."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.event_stream import EVENT_STREAM_HEADERS, STILL_HERE
from fargate_handler.gateway.events_cookie import NAME as EVENTS_COOKIE
from fargate_handler.gateway.http_answers import (
    VIA_HEADER,
    authenticated,
    epoch_of_query,
    number_of_query,
    requested_resumption,
)
from fargate_handler.gateway.resumption import Resumption, resume
from fargate_handler.gateway.waking_reader import WakingReader, reading
from stream_core.channel import Channel
from stream_core.errors import EvenflowError, InvalidRequest
from stream_core.http_contract import EVENT_ID_PATTERN
from stream_core.response_log import Cursor
from stream_core.response_stream import ResponseStream
from stream_core.restart_frame import restart_frame
from stream_core.resume_point import EVERYTHING, ResumePoint
from stream_core.subprotocols import V1Encoder
from stream_core.terminal_frame import terminal_frame

NEXT_INDEX_HEADER = "Evenflow-Next-Index"
"""How many entries there were when the stream began."""
_END = ".end"
# How soon an EventSource comes back, in milliseconds; by itself it would wait for seconds. It is a line of the first event:
# on its own, with an empty line behind it, some parsers take it for an event without data.
_RETRY = b"retry: 500\n"
_EVENT_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


class EventsEndpoint:
    """Streams a response; every event has an id, so that `Last-Event-ID` resumes."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The events after the last one that the client has."""
        last = _last_event(request)
        joined = number_of_query(request, "joined", 1) > 0
        stream, point = await requested_resumption(
            request,
            self._context,
            last.last_index,
            last.epoch,
            "Last-Event-ID",
            channel=_reader(request, self._context),
        )
        if stream.log.closed and last.ended and point.next_index == stream.log.next_index:
            # It has everything. 204 is how an EventSource is told not to come again.
            return web.Response(status=204)
        there = {VIA_HEADER: stream.via, NEXT_INDEX_HEADER: str(stream.log.next_index)}
        answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS | there)
        found: Resumption | None = Resumption(stream, point)
        try:
            while found is not None:
                found = await self._write(found, answer, request, joined=joined)
        except ConnectionError:
            pass  # the client has left, as clients do
        except EvenflowError:
            if not answer.prepared:
                raise
            # The client comes back, and is told.
        return answer

    async def _write(
        self, found: Resumption, answer: web.StreamResponse, request: web.Request, *, joined: bool
    ) -> Resumption | None:
        """Write the log; returns where it goes on when this copy of it goes on no more."""
        context, stream = self._context, found.stream
        events = _Events(stream, found.point, context.limits.frame_characters, joined=joined)
        with reading(stream, context.limits) as reader:
            if not answer.prepared:
                await _open(answer, request)
            await self._write_log(events, reader, answer, request)
        # Another task that follows this one must find out for itself who the owner is.
        if events.ended or not reader.left_behind or not joined:
            return None
        after = events.cursor.next_index - 1
        return await resume(context, stream.response_id, stream.channel, after, events.epoch, "Last-Event-ID")

    async def _write_log(
        self,
        events: _Events,
        reader: WakingReader,
        answer: web.StreamResponse,
        request: web.Request,
    ) -> None:
        limits, measures = self._context.limits, self._context.measures
        writer = await answer.prepare(request)
        if writer is None:
            return  # the client has left
        while not events.ended:
            before = events.cursor.next_index
            chunk = events.take()
            measures.delivered.value += events.cursor.next_index - before
            if not chunk and reader.left_behind:
                return
            if not chunk and not await reader.wait(limits.sse_heartbeat_seconds):
                chunk = STILL_HERE
            if not chunk:
                continue
            try:
                # While a slow client is waited for, the log grows and the next deltas join.
                async with asyncio.timeout(limits.lag_close_seconds):
                    await answer.write(chunk)
                    chunk = b""  # the writer has it
                    await writer.drain()
            except TimeoutError:
                measures.too_slow.value += 1
                if request.transport is not None:
                    request.transport.abort()
                return


def _reader(request: web.Request, context: GatewayContext) -> Channel:
    """Whose request it is: by the token, else by the cookie that `EventSource` sends, which opens this one response."""
    ticket = request.cookies.get(EVENTS_COOKIE)
    if ticket is None or "Authorization" in request.headers:
        return authenticated(request, context)
    return context.tokens.verify(ticket, context.wall_time(), only_for=request.match_info["response_id"]).channel


async def _open(answer: web.StreamResponse, request: web.Request) -> None:
    await answer.prepare(request)
    if request.transport is not None:
        # The kernel's buffer is the write buffer: what it doesn't take would be held here, an object for each event.
        request.transport.set_write_buffer_limits(high=0)
    await answer.write(_RETRY)


class _Events:
    """Writes what a cursor gives as events."""

    def __init__(self, stream: ResponseStream, point: ResumePoint, most: int, *, joined: bool) -> None:
        self.cursor = Cursor(stream.log, point.next_index, most if joined else 0)
        self._most = most
        self.ended = False
        self._restarted = point.restarted
        self._stream = stream
        self.epoch = point.restarted.epoch if point.restarted else stream.log.epoch_at(point.next_index - 1)
        self._encoder = V1Encoder(stream.channel.session, stream.response_id)

    def take(self) -> bytes:
        """What is new, up to the size of a frame, as bytes; empty when there is nothing."""
        cursor, stream, parts = self.cursor, self._stream, []
        if self._restarted is not None:
            frame = restart_frame(stream, self._restarted, EVERYTHING)
            parts.append(_event(frame.type, "", frame.to_json()))
            self._restarted = None
        size = 0
        while size < self._most and (taken := cursor.take()) is not None:
            if isinstance(taken, str):
                delta = self._encoder.delta(taken, cursor.first, cursor.last)
                parts.append(_event("chat.response.delta", self._id(), delta))
            else:
                self.epoch = max(self.epoch, taken.epoch)
                frame = restart_frame(stream, taken, cursor.last)
                parts.append(_event(frame.type, self._id(), frame.to_json()))
            size += len(parts[-1])
        if cursor.at_end:
            self.ended = True
            last = terminal_frame(stream)
            parts.append(_event(last.type, f"{self._id()}{_END}", last.to_json()))
        return b"".join(parts)

    def _id(self) -> str:
        return f"{self.cursor.last}" if self.epoch == 1 else f"{self.cursor.last}.{self.epoch}"


class _LastEvent(NamedTuple):
    """What a client says that it has."""

    last_index: int
    epoch: int | None
    ended: bool


def _event(kind: str, event_id: str, data: bytes) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), event_id.encode(), data)


def _last_event(request: web.Request) -> _LastEvent:
    """From the header `Last-Event-ID`, the id of an event; else from the query, which must be right in any case."""
    of_query = _LastEvent(number_of_query(request, "after", -1, lowest=-1), epoch_of_query(request), False)
    event_id = request.headers.get("Last-Event-ID", "")
    if not event_id:
        return of_query
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise InvalidRequest(
            f"Last-Event-ID must be the id of one of this response's events, not {event_id[:32]!r}",
            code="invalid_field",
            param="Last-Event-ID",
        )
    index, epoch, end = found.groups()
    return _LastEvent(int(index), int(epoch or 1), end is not None)
