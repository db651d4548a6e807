"""`POST /session`."""

from __future__ import annotations

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import json_answer
from fargate_handler.gateway.request_body import read_body
from stream_core.policy.memory_bound import GENERATION_BYTES
from stream_core.protocol.messages import SESSION_REQUEST, parse
from stream_core.protocol.session_init import bearer, open_session


class SessionEndpoint:
    """Opens sessions."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.Response:
        """Open a session. The answer is 201 with its token."""
        context = self._context
        # Its first message could not be accepted.
        context.orchestrator.memory.check(GENERATION_BYTES)
        # Who calls is in the body.
        body = await read_body(request, context, context.limits.message_bytes)
        opened = open_session(
            parse(SESSION_REQUEST, body or b"{}"),
            bearer(request.headers.get("Authorization")),
            agents=context.agents,
            tenant_keys=context.tenant_keys.by_tenant,
            tokens=context.tokens,
            now=context.wall_time(),
            ttl=context.limits.session_token_ttl_seconds,
        )
        ws_url, http_url = context.public_urls(request.scheme, request.host)
        return json_answer(opened.to_body(ws_url=ws_url, http_url=http_url), status=201)
