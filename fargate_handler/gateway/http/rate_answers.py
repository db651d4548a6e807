"""Adds rate limit headers to the answers of `/v1`."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.verified_request import payer_of
from evenflow.stream_core.http.routes import protocol_at
from evenflow.stream_core.tenants.rate_headers import anthropic_rate_headers, openai_rate_headers

_READABLE = "Access-Control-Expose-Headers"


class RateAnswers:
    """Adds the headers in the form of the API that was called."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Add the headers to an answer, if its caller has rate limits."""
        kind = protocol_at(request.path, request.headers).rate_headers
        payer = None if kind is None else payer_of(request, self._context.access)
        if payer is None:
            return
        states = self._context.quotas.states(payer, self._context.monotonic())
        if not states:
            return
        if kind == "anthropic":
            headers = anthropic_rate_headers(states, self._context.wall_time())
        else:
            headers = openai_rate_headers(states)
        answer.headers.update(headers)
        if _READABLE in answer.headers:  # a page of another origin has called
            answer.headers[_READABLE] = ", ".join((answer.headers[_READABLE], *headers))
