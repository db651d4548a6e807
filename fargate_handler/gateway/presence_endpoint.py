"""`GET /chat/message/{response_id}/presence`: who reads a response, as server-sent events."""

from __future__ import annotations

import asyncio

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.event_reader import STILL_HERE
from fargate_handler.gateway.event_stream import EVENT_STREAM_HEADERS
from fargate_handler.gateway.http_answers import reading_channel
from fargate_handler.gateway.presence_notice import presence_notice
from stream_core.delivery.presence import Present
from stream_core.log.response_stream import ResponseStream


class PresenceEndpoint:
    """Tells who reads, while the response goes on."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The readers now, and on each change."""
        context = self._context
        channel = reading_channel(request, context)
        stream = await context.orchestrator.find(request.match_info["response_id"], channel)
        if stream.log.closed:
            return web.Response(status=204)  # an EventSource doesn't come again
        listener = _Listener()
        stream.listen(listener)
        context.measures.event_streams += 1
        answer = web.StreamResponse(headers=EVENT_STREAM_HEADERS)
        try:
            await answer.prepare(request)
            await self._tell(stream, listener, answer)
        except ConnectionError:
            pass  # the client has left
        finally:
            context.measures.event_streams -= 1
            if stream.readers.presence is not None:
                stream.readers.presence.leave(listener)
        return answer

    async def _tell(
        self, stream: ResponseStream, listener: _Listener, answer: web.StreamResponse
    ) -> None:
        """Write each change, as fast as the client takes it; what it was too slow for is left out.

        Ends with the response, or with this copy of it: the client comes again.
        """
        while not (stream.log.closed or listener.lost):
            present = await listener.news(self._context.limits.sse_heartbeat_seconds)
            if present is None:
                await answer.write(STILL_HERE)
                continue
            notice = presence_notice(self._context, stream.channel, stream.response_id, present)
            await answer.write(b"event: presence\ndata: %b\n\n" % notice.to_json())


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
