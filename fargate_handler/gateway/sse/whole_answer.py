"""Answers a request with one object when the response has ended, in any protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import Deadline
from evenflow.fargate_handler.gateway.connections.resumption import Progress, WakingReader, reading
from evenflow.fargate_handler.gateway.http.answers import (
    VIA_HEADER,
    check_room_for_text,
    heartbeat_bytes,
    json_answer,
)
from evenflow.fargate_handler.gateway.http.connection import when_half_closed
from evenflow.fargate_handler.gateway.http.verified_request import protocol_of, user_of
from evenflow.fargate_handler.gateway.sse.event_reader import PROBE_SECONDS
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed
from evenflow.stream_core.records.reader_record import LeaveReason, ReaderFigures

# Readers of JSON ignore white space before it.
_STILL_HERE = b"\n"
# A proxy that buffers or compresses the answer would delay the heartbeats.
_AS_IT_COMES = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}


class WholeAnswer:
    """Answers with one response as one object.

    Proxies cut silent connections, mostly after 60 s. So after one heartbeat the head is sent, with
    the status 200, and then a newline with each heartbeat. An earlier error has its own status. A
    later one is the object.

    Args:
        make: makes the object of a completed response.
        deadline: of the response's end.
        headers: further headers of the answer.
        make_error: makes the object of an error.
    """

    def __init__(
        self,
        context: GatewayContext,
        request: web.Request,
        make: Callable[[ResponseStream], dict[str, Any]],
        deadline: Deadline,
        headers: dict[str, str],
        *,
        make_error: Callable[[EvenflowError], dict[str, Any]] = EvenflowError.to_body,
    ) -> None:
        self._context = context
        self._request = request
        self._make = make
        self._make_error = make_error
        self._deadline = deadline
        self._headers = _AS_IT_COMES | headers
        self._answer = web.StreamResponse(headers=self._headers)
        self._answer.content_type = "application/json"
        self._beat_seconds = context.limits.sse_heartbeat_seconds
        self._still_here = _STILL_HERE * heartbeat_bytes(request)
        self._beat_at = context.monotonic() + self._beat_seconds

    async def write(self, stream: ResponseStream) -> web.StreamResponse:
        """Write the answer once the response has ended.

        Raises:
            TimedOut: it did not end within the deadline.
            EvenflowError: it ended without an answer, or can't be found. After the head was sent,
                the error is written as the object.
        """
        figures = ReaderFigures(
            stream, protocol_of(self._request), "http", 0, self._context.monotonic()
        )
        delivered, why = 0, LeaveReason.GONE
        try:
            try:
                completed = await self._completed(stream)
                check_room_for_text(self._context, completed)
                body = self._make(completed)
            except EvenflowError as error:
                why = LeaveReason.FAILED
                if not self._answer.prepared:
                    raise
                body = self._make_error(error)
            else:
                stream, delivered, why = completed, completed.log.next_index, LeaveReason.ENDED
                if not self._answer.prepared:
                    return json_answer(body, headers=self._headers | {VIA_HEADER: completed.via})
            await self._answer.write_eof(orjson.dumps(body))
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            log_event(figures.left_record(stream, delivered, self._context.monotonic(), why))
        return self._answer

    async def _completed(self, stream: ResponseStream) -> ResponseStream:
        """Wait for the end. Returns the response, which may be another replica by then."""
        context = self._context
        if not stream.log.closed:
            with reading(stream, "http", user_of(self._request)) as reader:
                reader.only_end = True
                when_half_closed(self._request, partial(self._hurry, reader))
                while not reader.stream.log.closed:
                    await self._wait(reader)
            stream = reader.stream
        check_completed(stream)
        context.measures.delivered.value += stream.log.next_index
        return stream

    async def _wait(self, reader: WakingReader) -> None:
        if reader.left_behind:
            await reader.switch_replica(self._context, Progress())
            return
        await reader.wait(min(self._deadline.left, self._beat_at - self._context.monotonic()))
        self._deadline.check()
        if self._context.monotonic() >= self._beat_at and not reader.stream.log.closed:
            await self._beat(reader.stream)

    def _hurry(self, reader: WakingReader) -> None:
        """Send heartbeats faster to a half-closed client: a write shows whether it is gone."""
        self._beat_seconds = min(self._beat_seconds, PROBE_SECONDS)
        self._beat_at = min(self._beat_at, self._context.monotonic() + self._beat_seconds)
        reader.wake()

    async def _beat(self, stream: ResponseStream) -> None:
        self._beat_at = self._context.monotonic() + self._beat_seconds
        if not self._answer.prepared:
            self._answer.headers[VIA_HEADER] = stream.via
            await self._answer.prepare(self._request)
        await self._answer.write(self._still_here)
