"""`GET /chat/message/{response_id}/events`: the log as server-sent events."""

from __future__ import annotations

import asyncio

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import number_of_query, requested_stream
from fargate_handler.gateway.waking_reader import WakingReader, reading
from stream_core.errors import InvalidRequest
from stream_core.response_log import Cursor
from stream_core.response_stream import ResponseStream
from stream_core.restart_frame import restart_frame
from stream_core.subprotocols import V1Encoder
from stream_core.terminal_frame import terminal_frame

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
_END = ".end"


class EventsEndpoint:
    """Streams a response; every event has an id, so that `Last-Event-ID` resumes."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The events after the last one that the client has."""
        stream = requested_stream(request, self._context)
        last_index = stream.log.next_index - 1
        last_event = request.headers.get("Last-Event-ID", "")
        if stream.log.closed and last_event == f"{last_index}{_END}":
            # It has everything. 204 is how an EventSource is told not to come again.
            return web.Response(status=204)
        after = _after(request, last_event)
        if after > last_index:
            raise InvalidRequest(
                f"the last event is {after}, but the response's last index is {last_index}",
                code="invalid_field",
                param="Last-Event-ID",
            )
        with reading(stream, self._context.limits) as reader:
            answer = web.StreamResponse(headers=_HEADERS)
            try:
                await answer.prepare(request)
                await self._write_log(stream, after + 1, reader, answer, request)
            except ConnectionError:
                pass  # the client has left, as clients do
            return answer

    async def _write_log(
        self,
        stream: ResponseStream,
        next_index: int,
        reader: WakingReader,
        answer: web.StreamResponse,
        request: web.Request,
    ) -> None:
        limits, measures = self._context.limits, self._context.measures
        events = _Events(stream, next_index, limits.frame_characters)
        while not events.ended:
            before = events.cursor.next_index
            chunk = events.take()
            measures.delivered.value += events.cursor.next_index - before
            if not chunk and not await reader.wait(limits.sse_heartbeat_seconds):
                chunk = b": still here\n\n"
            if not chunk:
                continue
            try:
                # While a slow client is waited for, the log grows and the next deltas join.
                await asyncio.wait_for(answer.write(chunk), limits.lag_close_seconds)
            except TimeoutError:
                measures.too_slow.value += 1
                if request.transport is not None:
                    request.transport.abort()
                return


class _Events:
    """Writes what a cursor gives as events."""

    def __init__(self, stream: ResponseStream, next_index: int, most: int) -> None:
        self.cursor = Cursor(stream.log, next_index, most)
        self.ended = False
        self._stream = stream
        self._encoder = V1Encoder(stream.channel.session, stream.response_id)

    def take(self) -> bytes:
        """Everything new, as bytes; empty when there is nothing."""
        cursor, stream, parts = self.cursor, self._stream, []
        while (taken := cursor.take()) is not None:
            if isinstance(taken, str):
                parts.append(
                    _event(
                        "chat.response.delta", str(cursor.last), self._encoder.delta(taken, cursor.first, cursor.last)
                    )
                )
                continue
            frame = restart_frame(stream, taken, cursor.last)
            parts.append(_event(frame.type, str(cursor.last), frame.to_json()))
        if cursor.at_end:
            self.ended = True
            last = terminal_frame(stream)
            parts.append(_event(last.type, f"{cursor.last}{_END}", last.to_json()))
        return b"".join(parts)


def _event(kind: str, event_id: str, data: bytes) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), event_id.encode(), data)


def _after(request: web.Request, last_event: str) -> int:
    if not last_event:
        return number_of_query(request, "after", -1, lowest=-1)
    if last_event.isascii() and last_event.isdigit():
        return int(last_event)
    raise InvalidRequest(
        f"Last-Event-ID must be the id of one of this response's events, not {last_event[:32]!r}",
        code="invalid_field",
        param="Last-Event-ID",
    )
