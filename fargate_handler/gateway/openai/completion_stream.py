"""An answer as it grows: the log as chunks of OpenAI's API."""

from __future__ import annotations

import asyncio

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.event_stream import EVENT_STREAM_HEADERS, STILL_HERE
from fargate_handler.gateway.http_answers import VIA_HEADER
from fargate_handler.gateway.openai.answer_reader import AnswerReader
from fargate_handler.gateway.openai.appended_text import AppendedText
from fargate_handler.gateway.openai.completion_objects import CompletionObjects, error_event
from fargate_handler.gateway.openai.deadline import Deadline
from fargate_handler.gateway.openai.ending import check_completed
from fargate_handler.gateway.openai.last_event import LAST_EVENT_ID, LastEvent, event_id
from fargate_handler.gateway.resumption import Resumption, resume
from fargate_handler.gateway.waking_reader import WakingReader, reading
from stream_core.errors import EvenflowError, Gone
from stream_core.response_log import slice_of
from stream_core.response_stream import ResponseStream


class CompletionStream:
    """Streams one response to one request.

    The head waits for the first chunk, or for the first heartbeat: an error that comes before is an answer with a status.

    Args:
        headers: of the answer, beside those of every event stream.
    """

    def __init__(
        self,
        context: GatewayContext,
        request: web.Request,
        objects: CompletionObjects,
        deadline: Deadline,
        headers: dict[str, str],
    ) -> None:
        self._context = context
        self._request = request
        self._objects = objects
        self._deadline = deadline
        self._answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS | headers)
        self._last_id = ""
        self._first_chunk = b""
        self._reader = AnswerReader()

    async def write(self, stream: ResponseStream, last: LastEvent) -> web.StreamResponse:
        """Write what the client doesn't have, to the end.

        Raises:
            EvenflowError: before the head was written; behind it, the client is told in the stream.
        """
        try:
            try:
                await self._write(await self._found(stream, last.last_index, last.epoch))
            except EvenflowError as error:
                if not self._answer.prepared:
                    raise
                await self._send(error_event(error))
        except ConnectionError:
            pass  # the client has left, as clients do
        return self._answer

    async def _found(self, stream: ResponseStream, after: int, epoch: int) -> Resumption:
        return await resume(self._context, stream.response_id, stream.channel, after, epoch, LAST_EVENT_ID)

    async def _write(self, found: Resumption) -> None:
        limits = self._context.limits
        if found.point.restarted is not None:
            raise Gone(
                "what you have of this response is not what is on record, since its task was lost; drop it, and ask with the "
                f"same Idempotency-Key and without {LAST_EVENT_ID}",
                code="response_restarted",
                param=LAST_EVENT_ID,
            )
        text = AppendedText(found.stream.log, found.point.next_index, limits.frame_characters)
        # What the client has may end in the middle of a call, or of a mark.
        self._reader.read(slice_of(found.stream.log.entries[: found.point.next_index], 0).text)
        self._last_id = event_id(found.stream.log, found.point.next_index - 1)
        self._first_chunk = self._objects.role(self._last_id)
        while True:
            with reading(found.stream, limits) as reader:
                if await self._follow(found.stream, text, reader):
                    return
            # This copy goes on no more.
            after = text.cursor.next_index - 1
            found = await self._found(found.stream, after, found.stream.log.epoch_at(after))
            text = text.going_on(found)

    async def _follow(self, stream: ResponseStream, text: AppendedText, reader: WakingReader) -> bool:
        """Whether the response was written to its end; else it goes on in another copy."""
        heartbeat, delivered = self._context.limits.sse_heartbeat_seconds, self._context.measures.delivered
        while True:
            before = text.cursor.next_index
            chunks = self._take(stream, text)
            delivered.value += text.cursor.next_index - before
            if chunks:
                await self._open(stream)
                await self._send(chunks)
            elif text.cursor.at_end:
                check_completed(stream)
                text.check_whole()
                await self._open(stream)
                await self._send(self._objects.finish(self._last_id, stream, self._reader.open_choices))
                return True
            elif reader.left_behind:
                return False
            elif not await reader.wait(patience := min(heartbeat, self._deadline.left)):
                self._deadline.check()
                # A timer may be early: who has nearly waited long enough isn't given a head, but a status.
                if patience == heartbeat:
                    await self._open(stream)
                    await self._send(STILL_HERE)

    def _take(self, stream: ResponseStream, text: AppendedText) -> bytes:
        """What is new, up to the size of a frame, as chunks."""
        parts: list[bytes] = []
        size = 0
        while size < self._context.limits.frame_characters and (piece := text.take()) is not None:
            self._last_id = event_id(stream.log, text.cursor.last)
            if new := self._reader.read(piece):
                parts.append(self._objects.parts(self._last_id, new))
                size += len(parts[-1])
        return b"".join(parts)

    async def _open(self, stream: ResponseStream) -> None:
        """The head, and the chunk that says who speaks."""
        if self._answer.prepared:
            return
        self._answer.headers[VIA_HEADER] = stream.via
        await self._answer.prepare(self._request)
        if self._request.transport is not None:
            # The kernel's buffer is the write buffer: what it doesn't take would be held here, an object for each event.
            self._request.transport.set_write_buffer_limits(high=0)
        await self._answer.write(self._first_chunk)

    async def _send(self, data: bytes) -> None:
        """Hand over to the socket, and wait until it has taken it."""
        writer = await self._answer.prepare(self._request)
        if writer is None:
            raise ConnectionResetError("the client has left")
        try:
            # While a slow client is waited for, the log grows and the next deltas join.
            async with asyncio.timeout(self._context.limits.lag_close_seconds):
                await self._answer.write(data)
                await writer.drain()
        except TimeoutError:
            self._context.measures.too_slow.value += 1
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionAbortedError("the client takes nothing") from None
