"""A response's log as server-sent events: one way out of it for every protocol that is told in them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import VIA_HEADER
from fargate_handler.gateway.resumption import WakingReader, reading
from stream_core.encoders.port import LAST_EVENT_ID, LogEncoder
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, UpstreamTimeout

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
# The comment of a silence. No empty line behind it: parsers that keep the last `id:`, OpenAI's for Python and httpx-sse
# among them, take that for an event without data.
_STILL_HERE = b": still here\n"
# Longer than any model may take; what is beyond a float's range must not be counted with.
_LONGEST_TIMEOUT_MS = 86_400_000


class TimedOut(UpstreamTimeout):
    """A client has waited for as long as it was willing to."""


class Deadline:
    """The moment at which a request should be answered.

    Args:
        timeout_ms: from now on; None for as long as the model takes.
        monotonic: seconds.
    """

    def __init__(self, timeout_ms: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._at = math.inf if timeout_ms is None else monotonic() + min(timeout_ms, _LONGEST_TIMEOUT_MS) / 1000

    @property
    def left(self) -> float:
        """Seconds, 0 or more."""
        return max(0.0, self._at - self._monotonic())

    def check(self) -> None:
        """Whether there is time left.

        Raises:
            TimedOut: there isn't.
        """
        if not self.left:
            raise TimedOut(
                f"the answer was not complete within the {self._timeout_ms} ms that the request allows",
                code="timeout",
                param="timeout_ms",
            )


class EventStream:
    """The answer to one request, as one encoder writes it.

    Args:
        headers: of the answer, beside those of every event stream.
        at_once: whether the head goes out at once. Else it waits for the first event, or for the first
            heartbeat: an error that comes before is an answer with a status.
        goes_on: whether the client is given the rest from another copy of the response, when the one
            that it reads goes on no more. Else the stream breaks off there.
        deadline: how long the client waits for what comes next.
    """

    def __init__(
        self,
        context: GatewayContext,
        request: web.Request,
        encoder: LogEncoder,
        headers: Mapping[str, str],
        *,
        at_once: bool = False,
        goes_on: bool = True,
        deadline: Deadline | None = None,
    ) -> None:
        self._context = context
        self._request = request
        self._encoder = encoder
        self._at_once = at_once
        self._goes_on = goes_on
        self._deadline = deadline or Deadline(None, context.monotonic)
        self._answer = web.StreamResponse(headers=_HEADERS | dict(headers))
        self._unsent = b""

    async def write(self, stream: ResponseStream) -> web.StreamResponse:
        """Write the response, of which `stream` is the copy that the encoder reads, to its end.

        Raises:
            EvenflowError: before the head was written; behind it, the client is told in the stream.
        """
        try:
            try:
                with reading(stream) as reader:
                    await self._write(reader)
            except EvenflowError as error:
                if not self._answer.prepared:
                    raise
                self._unsent = self._encoder.failure(error)
                if self._unsent:
                    await self._send(stream)
        except ConnectionError:
            pass  # the client has left, as clients do
        return self._answer

    async def _write(self, reader: WakingReader) -> None:
        """The one loop of everything that is told in events."""
        encoder = self._encoder
        if self._at_once:
            await self._open(reader.stream)
        while not encoder.ended:
            if self._has_news():
                await self._send(reader.stream)
            elif not reader.left_behind:
                await self._wait(reader)
            elif self._goes_on:
                point = await reader.go_on(self._context, encoder.after, encoder.epoch, LAST_EVENT_ID)
                encoder.go_on(reader.stream, point)
            else:
                return

    def _has_news(self) -> bool:
        before = self._encoder.after
        self._unsent = self._encoder.take()
        self._context.measures.delivered.value += self._encoder.after - before
        return bool(self._unsent)

    async def _wait(self, reader: WakingReader) -> None:
        """Wait for news, and say now and then that the answer is still to come."""
        heartbeat = self._context.limits.sse_heartbeat_seconds
        patience = min(heartbeat, self._deadline.left)
        if await reader.wait(patience):
            return
        self._deadline.check()
        # A timer may be early: who has nearly waited long enough isn't given a head, but a status.
        if patience == heartbeat:
            self._unsent = _STILL_HERE
            await self._send(reader.stream)

    async def _open(self, stream: ResponseStream) -> None:
        self._answer.headers[VIA_HEADER] = stream.via
        await self._answer.prepare(self._request)
        if self._request.transport is not None:
            # The kernel's buffer is the write buffer: what it doesn't take would be held here, an object for each event.
            self._request.transport.set_write_buffer_limits(high=0)
        await self._answer.write(self._encoder.opening)

    async def _send(self, stream: ResponseStream) -> None:
        """Hand `_unsent` over to the socket, and wait until it has taken it."""
        if not self._answer.prepared:
            await self._open(stream)
        writer = await self._answer.prepare(self._request)
        if writer is None:
            raise ConnectionResetError("the client has left")
        try:
            # While a slow client is waited for, the log grows and the next deltas join.
            async with asyncio.timeout(self._context.limits.lag_close_seconds):
                await self._answer.write(self._unsent)
                self._unsent = b""  # the writer has it
                await writer.drain()
        except TimeoutError:
            self._context.measures.too_slow.value += 1
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionAbortedError("the client takes nothing") from None
