"""Measures the answers to HTTP requests and handshakes: how many, with which status, how soon."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from aiohttp import web

from evenflow.fargate_handler.gateway.http.answers import RequestHandler
from evenflow.fargate_handler.gateway.http.verified_request import PROTOCOL
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.http.routes import EVENFLOW
from evenflow.stream_core.metrics import metric_catalogue as catalogue

_BEGAN = web.RequestKey("began", float)
_HANDSHAKES, _NO_ROUTE = "websocket", "other"
_UNAUTHORIZED = (401, 403)


class HttpFigures:
    """Counts answers when their head is sent.

    Args:
        exempt_paths: of operators, which ask for them all the time.
    """

    def __init__(self, metrics: Metrics, exempt_paths: Collection[str] = ()) -> None:
        self._answers = metrics.labelled(catalogue.HTTP_ANSWERS)
        self._unauthorized = metrics.ratio(catalogue.UNAUTHORIZED_RATE)
        self._times = metrics.divided(catalogue.HTTP_ANSWER_TIME)
        self._exempt_paths = exempt_paths

    @web.middleware
    async def note_begin(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Note when a request began."""
        request[_BEGAN] = asyncio.get_running_loop().time()
        return await handler(request)

    async def count_answer(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Count the answer to a request just before its head is sent."""
        if request.path in self._exempt_paths:
            return
        resource = request.match_info.route.resource
        self._count(_NO_ROUTE if resource is None else resource.canonical, answer.status)
        began = request.get(_BEGAN)
        if began is not None:
            seconds = asyncio.get_running_loop().time() - began
            self._times.record_of(request.get(PROTOCOL, EVENFLOW.name), seconds * 1000)

    def count_handshake(self, status: int) -> None:
        """Count the answer to a request for a WebSocket."""
        self._count(_HANDSHAKES, status)

    def _count(self, route: str, status: int) -> None:
        self._answers.count(route, str(status))
        self._unauthorized.whole += 1
        self._unauthorized.part += status in _UNAUTHORIZED
