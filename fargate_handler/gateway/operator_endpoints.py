"""`GET /metrics` and `POST /drain`: for who operates the node."""

from __future__ import annotations

from asyncio import BaseTransport
from collections.abc import Callable

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.processes import Siblings
from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.stream_core.auth.session_token import key_matches
from evenflow.stream_core.base.errors import AuthenticationFailed
from evenflow.stream_core.http.http_contract import path_not_found
from evenflow.stream_core.protocols.evenflow.session_init import bearer

_LOOPBACK = ("127.0.0.1", "::1")
# Headers of browsers and proxies, which call for somebody else.
_FOR_ANOTHER = ("Origin", "Forwarded", "Via", "X-Real-IP")
_FORWARDED = "x-forwarded-"
_NOWHERE = ("", 0)


class OperatorEndpoints:
    """Answers operators and their programs. To others there are no such paths.

    Args:
        leave: asks this task to leave.
        siblings: what the other processes of this machine measure, if there are any.
    """

    def __init__(
        self, context: GatewayContext, leave: Callable[[], None], siblings: Siblings | None
    ) -> None:
        self._context = context
        self._leave = leave
        self._siblings = siblings

    async def metrics(self, request: web.Request) -> web.Response:
        """What is measured, in Prometheus' text format.

        It is at a port of its own, or else for this machine, by no proxy.
        """
        context, siblings = self._context, self._siblings
        for_sibling = siblings is not None and siblings.is_own_address(_called_at(request))
        if not is_metrics_port(request, context) and (
            not _is_of_this_machine(request)
            or (context.metrics_port is not None and not for_sibling)
        ):
            raise path_not_found(request.path)
        page = context.metrics.prometheus_page()
        if siblings is not None and not for_sibling:
            page = await siblings.metrics_page(page)
        return web.Response(
            body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def drain(self, request: web.Request) -> web.Response:
        """Leave, as after SIGTERM. A proxy may be on this machine too, so a key is needed."""
        expected = self._context.drain_key
        if expected is None:
            raise path_not_found(request.path)
        if not key_matches(bearer(request.headers.get("Authorization")), expected):
            raise AuthenticationFailed(
                "this needs EVENFLOW_DRAIN_KEY as `Authorization: Bearer <key>`; the node stays",
                code="invalid_api_key",
            )
        self._leave()
        return json_answer({"status": "draining"}, 202)


def is_metrics_port(called: web.Request | BaseTransport, context: GatewayContext) -> bool:
    """Whether this came to the port that has only metrics."""
    return context.metrics_port is not None and _called_at(called)[1] == context.metrics_port


def _called_at(called: web.Request | BaseTransport) -> tuple[str, int]:
    """The address and the port at which this came in."""
    host, port, *_ = called.get_extra_info("sockname") or _NOWHERE
    return host, port


def _is_of_this_machine(request: web.Request) -> bool:
    return (
        request.remote in _LOOPBACK
        and not any(name in request.headers for name in _FOR_ANOTHER)
        and not any(name.lower().startswith(_FORWARDED) for name in request.headers)
    )
