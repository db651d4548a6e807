"""The one intake of HTTP calls: who calls, whether it may, what it costs, and how much at once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from aiohttp import web

from evenflow.fargate_handler.gateway.callers import (
    CALLER,
    bearer_of,
    charge_answer,
    pace,
    stranger,
)
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.cookies import EVENTS_COOKIE
from evenflow.fargate_handler.gateway.http_answers import (
    API_KEY,
    CLAIMS,
    PROTOCOL,
    RequestHandler,
    address_of,
    number_of_query,
    peer_claims,
    reader_claims,
    verified_claims,
)
from evenflow.fargate_handler.gateway.requests.submission import (
    SENDER,
    caller_of,
    verified_sender,
)
from evenflow.stream_core.metrics.metric_catalogue import HTTP_REQUESTS
from evenflow.stream_core.policy.call_rates import Caller
from evenflow.stream_core.protocol.errors import EvenflowError
from evenflow.stream_core.protocol.routes import (
    EVENTS,
    NOT_SERVED,
    PRESENCE,
    Bound,
    Credential,
    Route,
    Terms,
)
from evenflow.stream_core.protocol.session_init import bearer

OF_TASKS = "readers"
"""The query parameter by which another task asks for readers: `all` of the owner of a response,
those `here` of a task that copies it.
"""


class CallIntake:
    """Admits a call on its route's terms, before its endpoint is called."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def admitted(self, route: Route, endpoint: RequestHandler) -> RequestHandler:
        """The endpoint behind the intake."""
        terms = route.terms
        if terms.bound is Bound.MACHINE:
            return self.paced(endpoint)
        requests = self._context.metrics.labelled(HTTP_REQUESTS)

        async def answer(request: web.Request) -> web.StreamResponse:
            requests.count(route.protocol)
            request[PROTOCOL] = route.protocol
            caller = request[CALLER] = await self._identified(request, route)
            await pace(self._context, caller, terms.cost)
            with self._place(caller, terms):
                answered = await endpoint(request)
            if isinstance(answered, web.Response) and isinstance(answered.body, bytes):
                charge_answer(request, self._context, len(answered.body))
            return answered

        return answer

    def paced(self, endpoint: RequestHandler) -> RequestHandler:
        """The endpoint of paths that are no client's, or only say what to call instead."""

        async def answer(request: web.Request) -> web.StreamResponse:
            await self.pace_stranger(request)
            return await endpoint(request)

        return answer

    async def pace_stranger(self, request: web.Request) -> None:
        """Charge a call to its address alone, such as one that no endpoint answers.

        Raises:
            RateLimited: it would have to wait too long.
        """
        await pace(self._context, self._stranger(request), NOT_SERVED.cost)

    async def _identified(self, request: web.Request, route: Route) -> Caller:
        """Whose call it is.

        Raises:
            AuthenticationFailed: it shows no valid credential.
            NotPermitted: what it shows lacks the right, or is for something else.
            RateLimited: as for `pace_stranger`, to which a refusal is charged.
        """
        try:
            return await self._verified(request, route)
        except EvenflowError:
            await self.pace_stranger(request)
            raise

    async def _verified(self, request: web.Request, route: Route) -> Caller:
        context, terms = self._context, route.terms
        if terms.right is None or terms.bound is Bound.SOCKET:
            return self._opener(request)  # a plain request of a WebSocket is only told so
        if terms.credential is Credential.SENDER:
            sender = request[SENDER] = await verified_sender(request, context, terms.right)
            return caller_of(sender, context)
        if terms.credential is Credential.SESSION:
            claims = verified_claims(request, context, terms.right)
        elif _is_by_task(request, route):
            request[CLAIMS] = peer_claims(request, context)
            return Caller()
        else:
            cookie = request.cookies.get(EVENTS_COOKIE) if route is EVENTS else None
            claims = reader_claims(request, context, terms.right, cookie)
        request[CLAIMS] = claims
        return bearer_of(claims, address_of(request, context), context)

    def _opener(self, request: web.Request) -> Caller:
        """Who calls without a right: who has a key is counted by it."""
        context, headers = self._context, request.headers
        given = bearer(headers.get("Authorization")) or headers.get(API_KEY)
        known = context.tenants.with_key(given, context.wall_time())
        if known is None:
            return self._stranger(request)
        return Caller(sender=(known.tenant.id, known.key.id))

    def _stranger(self, request: web.Request) -> Caller:
        return stranger(address_of(request, self._context))

    def _place(self, caller: Caller, terms: Terms) -> AbstractContextManager[None]:
        if terms.bound is Bound.STREAM:
            return self._context.calls.streaming(caller)
        return nullcontext()


def _is_by_task(request: web.Request, route: Route) -> bool:
    """Whether another task calls, which copies a response."""
    if route is EVENTS:
        return number_of_query(request, "joined", 1) == 0
    return route is PRESENCE and OF_TASKS in request.query
