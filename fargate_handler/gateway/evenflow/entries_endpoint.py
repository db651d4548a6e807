"""`GET /chat/message/{response_id}/entries/{epoch}/{first}-{last}`: a range of entries."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.answers import kept_by_caches
from evenflow.fargate_handler.gateway.http.verified_request import claims_of
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.protocols.evenflow.entry_range import entry_range


class EntriesEndpoint:
    """Answers ranges of a response. Shared caches keep them for a while, each for one token."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.Response:
        """The entries of a range, if the log has all of them."""
        context, path = self._context, request.match_info
        epoch = whole_number("epoch", path["epoch"], 1, lowest=1)
        first = whole_number("first", path["first"], 0)
        last = whole_number("last", path["last"], 0)
        channel = claims_of(request).channel
        stream = await context.orchestrator.find(path["response_id"], channel)
        body = entry_range(stream, epoch, first, last, context.limits.frame_characters)
        context.measures.delivered.value += last - first + 1
        headers = kept_by_caches(context, stream)
        return web.Response(body=body, headers=headers, content_type="application/json")
