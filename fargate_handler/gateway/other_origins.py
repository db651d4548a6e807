"""Pages of other origins, over HTTP: a browser's question before a call is answered, and every answer says who may read it."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from fargate_handler.gateway.http_answers import RequestHandler
from stream_core.policy.allowed_origins import AllowedOrigins


class OtherOrigins:
    """What is allowed to them.

    Args:
        besides: the paths that are not for clients, or say themselves who may read them.
    """

    def __init__(self, allowed: AllowedOrigins, besides: Collection[str]) -> None:
        self._allowed = allowed
        self._besides = besides

    @web.middleware
    async def preflights(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Answers the browser's question, also for a path that there isn't: the call itself is told so, and can be read."""
        asked_method = request.headers.get("Access-Control-Request-Method")
        headers = self._allowed.preflight_headers(request.method, request.headers.get("Origin"), asked_method)
        if headers is None or request.path in self._besides:
            return await handler(request)
        return web.Response(status=204, headers=headers)

    async def add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Says on an answer that is about to leave who may read it."""
        if request.path not in self._besides:
            answer.headers.extend(self._allowed.answer_headers(request.headers.get("Origin")))
