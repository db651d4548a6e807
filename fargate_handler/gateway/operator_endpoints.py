"""`GET /health`, `GET /metrics` and `POST /drain`, for operators and load balancers."""

from __future__ import annotations

from asyncio import BaseTransport
from collections.abc import Callable
from typing import Literal

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.processes import Siblings
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.fargate_handler.gateway.operator_api import OperatorApi
from evenflow.stream_core.auth.session_token import key_matches
from evenflow.stream_core.base.errors import AuthenticationFailed
from evenflow.stream_core.bounds.node_load import LoadFigure
from evenflow.stream_core.http.http_contract import path_not_found
from evenflow.stream_core.protocols.evenflow.http_bodies import Health
from evenflow.stream_core.protocols.evenflow.session_init import bearer

_LOAD_BALANCER = "ELB-HealthChecker/"
_LOOPBACK = ("127.0.0.1", "::1")
# Headers of browsers and proxies.
_FOR_ANOTHER = ("Origin", "Forwarded", "Via", "X-Real-IP")
_FORWARDED = "x-forwarded-"
_NOWHERE = ("", 0)


class OperatorEndpoints:
    """Answers operators and their programs. For clients `/metrics` and `/drain` do not exist.

    Args:
        load: how much of this node is in use.
        leave: asks this node to leave.
        drain_key: what `POST /drain` needs. None: there is no such path.
        store_is_lost: whether the file of the stores was deleted.
        lease_in_force: whether no other node may take over what this one owns.
        is_isolated: whether this node can't reach the store, and others can.
        siblings: the other processes of this machine, if there are any.
        api: answers `POST /operator`. None: there is no such path.
    """

    def __init__(
        self,
        context: GatewayContext,
        load: LoadFigure,
        leave: Callable[[], None],
        *,
        drain_key: str | None = None,
        store_is_lost: Callable[[], bool] = lambda: False,
        lease_in_force: Callable[[], bool] = lambda: True,
        is_isolated: Callable[[], bool] = lambda: False,
        siblings: Siblings | None = None,
        api: OperatorApi | None = None,
    ) -> None:
        self._context = context
        self._load = load
        self._leave = leave
        self._drain_key = drain_key
        self._store_is_lost = store_is_lost
        self._lease_in_force, self._is_isolated = lease_in_force, is_isolated
        self._siblings = siblings
        self._api = api

    async def health(self, request: web.Request) -> web.Response:
        """Whether this node takes new clients. 503 where it does not."""
        context, status = self._context, self._status
        # ECS kills a task that its load balancer finds unhealthy. So a full or leaving node is
        # healthy to the load balancer. One that can't serve is not.
        by_balancer = request.headers.get("User-Agent", "").startswith(_LOAD_BALANCER)
        can_serve = status in ("serving", "draining", "full")
        is_unhealthy = not can_serve or (status != "serving" and not by_balancer)
        health = Health(
            status=status,
            connections=len(context.registry),
            lease_in_force=self._lease_in_force(),
            load_percent=round(self._load.percent, 1),
            loaded_by=self._load.worst,
        )
        return json_answer(health.model_dump(), 503 if is_unhealthy else 200)

    @property
    def _status(self) -> Literal["store_lost", "isolated", "draining", "full", "serving"]:
        context = self._context
        if self._store_is_lost():
            return "store_lost"
        if self._is_isolated():
            return "isolated"
        if context.orchestrator.draining:
            return "draining"
        return "full" if context.registry.full or context.accepted.full else "serving"

    async def metrics(self, request: web.Request) -> web.Response:
        """The metrics, in Prometheus' text format.

        They are at the metrics port. Without one this machine may read them, but no proxy.
        """
        context, siblings = self._context, self._siblings
        for_sibling = siblings is not None and siblings.is_own_address(_called_at(request))
        if not is_metrics_port(request, context.site) and (
            not _is_of_this_machine(request)
            or (context.site.metrics_port is not None and not for_sibling)
        ):
            raise path_not_found(request.path)
        page = context.metrics.prometheus_page()
        if siblings is not None and not for_sibling:
            page = await siblings.metrics_page(page)
        return web.Response(
            body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def ask(self, request: web.Request) -> web.Response:
        """Answer an operator's question about all nodes."""
        if self._api is None:
            raise path_not_found(request.path)
        return await self._api.post(request)

    async def drain(self, request: web.Request) -> web.Response:
        """Drain the node, as SIGTERM does. It needs a key, since a proxy may be on this machine."""
        expected = self._drain_key
        if expected is None:
            raise path_not_found(request.path)
        if not key_matches(bearer(request.headers.get("Authorization")), expected):
            raise AuthenticationFailed(
                "this needs EVENFLOW_DRAIN_KEY as `Authorization: Bearer <key>`; the node stays",
                code="invalid_api_key",
            )
        self._leave()
        return json_answer({"status": "draining"}, 202)


def is_metrics_port(called: web.Request | BaseTransport, site: Site) -> bool:
    """Whether a request or connection came to the metrics port."""
    return site.metrics_port is not None and _called_at(called)[1] == site.metrics_port


def _called_at(called: web.Request | BaseTransport) -> tuple[str, int]:
    """The local address and port of a request or connection."""
    host, port, *_ = called.get_extra_info("sockname") or _NOWHERE
    return host, port


def _is_of_this_machine(request: web.Request) -> bool:
    return (
        request.remote in _LOOPBACK
        and not any(name in request.headers for name in _FOR_ANOTHER)
        and not any(name.lower().startswith(_FORWARDED) for name in request.headers)
    )
