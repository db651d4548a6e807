"""CORS: preflights, response headers, and rejection of requests without a preflight."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.http.answers import RequestHandler
from evenflow.fargate_handler.gateway.http.call_intake import CallIntake
from evenflow.fargate_handler.gateway.http.verified_request import host_of

_ALLOW = "Access-Control-Allow-Origin"


class Cors:
    """Answers and checks requests of pages of other origins.

    Args:
        intake: charges preflights to their address.
        exempt_paths: paths that are not for clients, or set these headers themselves.
    """

    def __init__(self, site: Site, intake: CallIntake, exempt_paths: Collection[str]) -> None:
        self._site = site
        self._intake = intake
        self._allowed = site.allowed_origins
        self._exempt_paths = exempt_paths

    @web.middleware
    async def answer_preflight(
        self, request: web.Request, handler: RequestHandler
    ) -> web.StreamResponse:
        """Answer preflights, also for unknown paths: the page can then read the call's 404."""
        requested_method = request.headers.get("Access-Control-Request-Method")
        headers = self._allowed.preflight_headers(
            request.method, request.headers.get("Origin"), requested_method
        )
        if headers is None or request.path in self._exempt_paths:
            return await handler(request)
        await self._intake.throttle_anonymous(request)
        return web.Response(status=204, headers=headers)

    @web.middleware
    async def check_origin(
        self, request: web.Request, handler: RequestHandler
    ) -> web.StreamResponse:
        """Reject requests without a preflight of pages that are neither own nor allowed."""
        origin = request.headers.get("Origin")
        host = host_of(request, self._site)
        if origin is not None and not self._site.is_own_page(origin, host):
            self._allowed.check_unasked(request.method, request.headers)
        return await handler(request)

    async def add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Add the headers to an answer that is about to be sent, unless any page may read it."""
        if request.path not in self._exempt_paths and _ALLOW not in answer.headers:
            answer.headers.extend(self._allowed.answer_headers(request.headers.get("Origin")))
