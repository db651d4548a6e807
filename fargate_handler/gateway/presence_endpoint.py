"""`GET /chat/message/{response_id}/presence`: who reads a response, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from evenflow.fargate_handler.gateway.call_intake import OF_TASKS
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.event_reader import STILL_HERE
from evenflow.fargate_handler.gateway.event_stream import EVENT_STREAM_HEADERS
from evenflow.fargate_handler.gateway.http_answers import GRANT, claims_of
from evenflow.fargate_handler.gateway.presence_notice import presence_notice
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.log.response_stream import ResponseStream
from evenflow.stream_core.protocol.errors import EvenflowError, Overloaded

# A task that says nothing for 2.5 s is taken for lost.
_TASK_HEARTBEAT_SECONDS = 1.0


class PresenceEndpoint:
    """Tells who reads, while the response goes on."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The readers now, and on each change."""
        context = self._context
        asked_by_task = OF_TASKS in request.query
        stream = (
            self._for_task(request)
            if asked_by_task
            else await context.orchestrator.find(
                request.match_info["response_id"], claims_of(request).channel
            )
        )
        if stream.log.closed:
            return web.Response(status=204)  # an EventSource doesn't come again
        beat = _TASK_HEARTBEAT_SECONDS if asked_by_task else context.limits.sse_heartbeat_seconds
        answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS)
        with self._listening(stream, request) as listener:
            context.measures.event_streams += 1
            try:
                await answer.prepare(request)
                sees_names = asked_by_task or claims_of(request).sees_names
                await self._tell(request, stream, listener, answer, beat, sees_names)
            except ConnectionError:
                pass  # the client has left
            except EvenflowError:
                pass  # its credential is no longer valid: it comes again, and is told so
            finally:
                context.measures.event_streams -= 1
        return answer

    def _for_task(self, request: web.Request) -> ResponseStream:
        """The response that another task asks for.

        Raises:
            NotFound, Gone: it is not here.
            Overloaded: this task is not its owner, and knows of no other's readers.
        """
        channel = claims_of(request).channel
        stream = self._context.orchestrator.responses.get(
            request.match_info["response_id"], channel
        )
        if request.query[OF_TASKS] != "here" and stream.via != "owner":
            raise Overloaded(
                "this task is not the response's owner; ask that one",
                code="response_elsewhere",
                retry_after_ms=1000,
            )
        return stream

    @contextmanager
    def _listening(self, stream: ResponseStream, request: web.Request) -> Iterator[_Listener]:
        listener, presence = _Listener(), self._context.orchestrator.presence
        of = request.query.get(OF_TASKS)
        if of == "here":
            stream.listen(listener)
        else:
            shared = claims_of(request).shared
            presence.listen(stream, listener, for_task=of is not None, shared=shared)
        try:
            yield listener
        finally:
            presence.leave(stream, listener)
            if stream.readers.presence is not None:
                stream.readers.presence.leave(listener)

    async def _tell(
        self,
        request: web.Request,
        stream: ResponseStream,
        listener: _Listener,
        answer: web.StreamResponse,
        beat: float,
        sees_names: bool,
    ) -> None:
        """Write each change, as fast as the client takes it; what it was too slow for is left out.

        Ends with the response, or with this copy of it: the client comes again.
        """
        context, responses = self._context, self._context.orchestrator.responses
        channel, response_id, grant = stream.channel, stream.response_id, request.get(GRANT)
        while not (stream.log.closed or listener.lost):
            present = await listener.news(beat)
            if grant is not None:  # otherwise it is another task
                self._context.check_grant(grant)
            if present is not None:
                notice = presence_notice(context, channel, response_id, present, sees_names)
                await answer.write(b"event: presence\ndata: %b\n\n" % notice.to_json())
            elif responses.held(stream.response_id) is stream:
                await answer.write(STILL_HERE)
            else:
                return  # nobody reads it here any more, so it is no longer copied


class _Listener:
    """Keeps the newest that it was told."""

    def __init__(self) -> None:
        self.lost = False
        self._newest: Present | None = None
        self._news = asyncio.Event()

    def present(self, _response_id: str, present: Present) -> None:
        """These read the response now."""
        self._newest = present
        self._news.set()

    def presence_lost(self, _response_id: str) -> None:
        """This copy has ended."""
        self.lost = True
        self._news.set()

    async def news(self, seconds: float) -> Present | None:
        """The newest, once there is one that was not taken. None: there is none for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        newest, self._newest = self._newest, None
        return newest
