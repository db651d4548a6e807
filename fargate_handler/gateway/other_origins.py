"""CORS: answers preflights of browsers, and says on every answer whose pages may read it."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from fargate_handler.gateway.http_answers import RequestHandler
from stream_core.policy.allowed_origins import AllowedOrigins


class OtherOrigins:
    """The headers for pages of other origins.

    Args:
        besides: paths that are not for clients, or set these headers themselves.
    """

    def __init__(self, allowed: AllowedOrigins, besides: Collection[str]) -> None:
        self._allowed = allowed
        self._besides = besides

    @web.middleware
    async def preflights(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Answer preflights, also for unknown paths: the page can then read the call's 404."""
        asked_method = request.headers.get("Access-Control-Request-Method")
        headers = self._allowed.preflight_headers(
            request.method, request.headers.get("Origin"), asked_method
        )
        if headers is None or request.path in self._besides:
            return await handler(request)
        return web.Response(status=204, headers=headers)

    async def add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Add the headers to an answer that is about to be sent."""
        if request.path not in self._besides:
            answer.headers.extend(self._allowed.answer_headers(request.headers.get("Origin")))
