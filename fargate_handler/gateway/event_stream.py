"""Writes a response as server-sent events, in any protocol that has an encoder for them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import VIA_HEADER
from fargate_handler.gateway.resumption import Progress, WakingReader, reading
from stream_core.encoders.port import LAST_EVENT_ID, LogEncoder
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, UpstreamTimeout

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
# The comment of a heartbeat, without an empty line: some parsers, OpenAI's for Python and httpx-sse
# among them, take a comment with one for an event without data.
_STILL_HERE = b": still here\n"
# Longer than any model may take. Larger numbers could be beyond a float's range.
_LONGEST_TIMEOUT_MS = 86_400_000


class TimedOut(UpstreamTimeout):
    """The client's timeout has passed."""


class Deadline:
    """The time by which a request must be answered.

    Args:
        timeout_ms: milliseconds from now. None: as long as the model takes.
        monotonic: seconds.
    """

    def __init__(self, timeout_ms: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._at = (
            math.inf
            if timeout_ms is None
            else monotonic() + min(timeout_ms, _LONGEST_TIMEOUT_MS) / 1000
        )

    @property
    def left(self) -> float:
        """Seconds left, 0 or more."""
        return max(0.0, self._at - self._monotonic())

    def check(self) -> None:
        """Check that there is time left.

        Raises:
            TimedOut: there is none.
        """
        if not self.left:
            raise TimedOut(
                f"the answer was not complete within the {self._timeout_ms} ms that the request "
                "allows",
                code="timeout",
                param="timeout_ms",
            )


class EventStream:
    """The answer to one request, in the protocol of an encoder.

    Args:
        headers: further headers of the answer.
        at_once: whether the head is sent at once. Otherwise it waits for the first event or
            heartbeat, so that an earlier error has a status.
        goes_on: whether to go on with another copy of the response when this one ends. Otherwise
            the stream breaks off.
        deadline: how long the client waits for the next event.
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
        """Write the response to its end. `stream` is the copy that the encoder reads.

        Raises:
            EvenflowError: before the head was sent. Later errors are written into the stream.
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
            pass  # the client has left
        return self._answer

    async def _write(self, reader: WakingReader) -> None:
        """The loop of all event streams."""
        encoder = self._encoder
        if self._at_once:
            await self._open(reader.stream)
        while not encoder.ended:
            if self._has_news():
                await self._send(reader.stream)
            elif not reader.left_behind:
                await self._wait(reader)
            elif self._goes_on:
                progress = Progress(encoder.after, encoder.epoch, LAST_EVENT_ID)
                point = await reader.go_on(self._context, progress)
                encoder.go_on(reader.stream, point)
            else:
                return

    def _has_news(self) -> bool:
        before = self._encoder.after
        self._unsent = self._encoder.take()
        self._context.measures.delivered.value += self._encoder.after - before
        return bool(self._unsent)

    async def _wait(self, reader: WakingReader) -> None:
        """Wait for news. After a heartbeat's time, send a comment."""
        heartbeat = self._context.limits.sse_heartbeat_seconds
        patience = min(heartbeat, self._deadline.left)
        if await reader.wait(patience):
            return
        self._deadline.check()
        # A timer may be early. A client that has nearly waited long enough gets a status, not a
        # head.
        if patience == heartbeat:
            self._unsent = _STILL_HERE
            await self._send(reader.stream)

    async def _open(self, stream: ResponseStream) -> None:
        self._answer.headers[VIA_HEADER] = stream.via
        await self._answer.prepare(self._request)
        if self._request.transport is not None:
            # The kernel's buffer is the write buffer. What it doesn't take would be kept here, an
            # object an event.
            self._request.transport.set_write_buffer_limits(high=0)
        await self._answer.write(self._encoder.opening)

    async def _send(self, stream: ResponseStream) -> None:
        """Send `_unsent`, and wait until the socket has taken it."""
        if not self._answer.prepared:
            await self._open(stream)
        writer = await self._answer.prepare(self._request)
        if writer is None:
            raise ConnectionResetError("the client has left")
        try:
            # While a slow client is waited for, the log grows and deltas are joined.
            async with asyncio.timeout(self._context.limits.lag_close_seconds):
                await self._answer.write(self._unsent)
                self._unsent = b""  # the writer has it
                await writer.drain()
        except TimeoutError:
            self._context.measures.too_slow.value += 1
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionAbortedError("the client does not read") from None
