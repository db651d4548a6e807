"""`GET /chat/message/{response_id}/presence`: a response's readers, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.evenflow.presence_notice import presence_notice
from evenflow.fargate_handler.gateway.http.call_intake import READERS_OF_NODE
from evenflow.fargate_handler.gateway.http.verified_request import GRANT, claims_of
from evenflow.fargate_handler.gateway.sse.event_reader import STILL_HERE
from evenflow.fargate_handler.gateway.sse.event_stream import EVENT_STREAM_HEADERS
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.delivery.response_stream import ResponseStream

# A node that sends nothing for 2.5 s counts as lost.
_NODE_HEARTBEAT_SECONDS = 1.0


class PresenceEndpoint:
    """Streams the readers of a response, while it runs."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The readers now, and after each change."""
        context = self._context
        for_node = READERS_OF_NODE in request.query
        stream = (
            self._for_node(request)
            if for_node
            else await context.orchestrator.find(
                request.match_info["response_id"], claims_of(request).channel
            )
        )
        if stream.log.closed:
            return web.Response(status=204)  # an EventSource doesn't come again
        beat = _NODE_HEARTBEAT_SECONDS if for_node else context.limits.sse_heartbeat_seconds
        answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS)
        with self._listening(stream, request) as listener:
            context.measures.event_streams += 1
            try:
                await answer.prepare(request)
                await self._write(request, stream, listener, answer, beat)
            except ConnectionError:
                pass  # the client has disconnected
            except EvenflowError:
                pass  # its credential is no longer valid; its next request gets the reason
            finally:
                context.measures.event_streams -= 1
        return answer

    def _for_node(self, request: web.Request) -> ResponseStream:
        """The response that another node replicates.

        Raises:
            NotFound, Gone: it is not here.
            Overloaded: this node is not its owner, so it does not know all readers.
        """
        channel = claims_of(request).channel
        stream = self._context.orchestrator.responses.get(
            request.match_info["response_id"], channel
        )
        if request.query[READERS_OF_NODE] != "here" and not stream.is_owned_here:
            raise Overloaded(
                "this node is not the response's owner; ask that one",
                code="response_elsewhere",
                retry_after_ms=1000,
            )
        return stream

    @contextmanager
    def _listening(self, stream: ResponseStream, request: web.Request) -> Iterator[_PresenceQueue]:
        scope = request.query.get(READERS_OF_NODE)
        listener, presence = _PresenceQueue(), self._context.orchestrator.presence
        if scope == "here":
            stream.readers.listen(stream.response_id, listener)
        else:
            shared = claims_of(request).shared
            presence.listen(stream, listener, for_node=scope is not None, shared=shared)
        try:
            yield listener
        finally:
            presence.leave(stream, listener)
            if stream.readers.presence is not None:
                stream.readers.presence.leave(listener)

    async def _write(
        self,
        request: web.Request,
        stream: ResponseStream,
        listener: _PresenceQueue,
        answer: web.StreamResponse,
        beat: float,
    ) -> None:
        """Write each change, as fast as the client takes it. A slow client skips changes.

        Ends with the response or its replica here. The client may reconnect.

        Raises:
            EvenflowError: the client's credential is no longer valid.
        """
        context, responses = self._context, self._context.orchestrator.responses
        channel, response_id = stream.channel, stream.response_id
        grant, claims = request.get(GRANT), claims_of(request)
        sees_names = claims.of_task or claims.sees_names
        while not (stream.log.closed or listener.is_over):
            present = await listener.news(beat)
            if grant is not None:  # otherwise another node listens
                context.access.check_grant(grant)
            if present is not None:
                notice = presence_notice(context, channel, response_id, present, sees_names)
                await answer.write(b"event: presence\ndata: %b\n\n" % notice.to_json())
            elif responses.of_any_session(stream.response_id) is stream:
                await answer.write(STILL_HERE)
            else:
                return  # it has no reader here any more, so it is no longer replicated


class _PresenceQueue:
    """A listener of presence. It keeps only the newest list of readers."""

    def __init__(self) -> None:
        self.is_over = False
        self._newest: Present | None = None
        self._news = asyncio.Event()

    def present(self, _response_id: str, present: Present) -> None:
        """The readers have changed."""
        self._newest = present
        self._news.set()

    def presence_lost(self, _response_id: str) -> None:
        """This replica has ended."""
        self.is_over = True
        self._news.set()

    async def news(self, seconds: float) -> Present | None:
        """Wait for a change. Returns the newest readers, or None after `seconds` without one."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        newest, self._newest = self._newest, None
        return newest
