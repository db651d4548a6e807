"""The intake of HTTP calls: identity, right, rate and concurrency, before an endpoint is called."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.rate_keys import (
    RATE_KEYS,
    anonymous_rate_keys,
    charge_answer,
    throttle,
    token_rate_keys,
)
from evenflow.fargate_handler.gateway.http.answers import RequestHandler
from evenflow.fargate_handler.gateway.http.cookies import EVENTS_COOKIE
from evenflow.fargate_handler.gateway.http.senders import (
    SENDER,
    rate_keys_of,
    verified_sender,
)
from evenflow.fargate_handler.gateway.http.verified_request import (
    API_KEY,
    CLAIMS,
    PROTOCOL,
    address_of,
    number_of_query,
    peer_claims,
    reader_claims,
    verified_claims,
)
from evenflow.fargate_handler.orchestrator.acceptance import Rejection
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.bounds.call_rates import RateKeys
from evenflow.stream_core.http.routes import (
    EVENTS,
    PRESENCE,
    Bound,
    Credential,
    Route,
)
from evenflow.stream_core.metrics.metric_catalogue import HTTP_REQUESTS
from evenflow.stream_core.protocols.evenflow.session_init import bearer

READERS_OF_NODE = "readers"
"""The query parameter of another node's call for readers: `all` at the owner of a response, `here`
at a node with a replica of it.
"""

_UNKNOWN_PATH_COST = 1
"""What a call of an unknown path costs. The unit is that of `Terms.cost`."""


CALL_REJECTIONS: Sequence[Rejection] = (
    Rejection(
        "rate_limited",
        429,
        "`EVENFLOW_CALLS_PER_SECOND`, `EVENFLOW_CALLS_PER_SENDER_PER_SECOND`",
        "when earlier calls are paid off",
    ),
    Rejection("session_streams", 429, "`EVENFLOW_STREAMS_PER_SESSION`", "1 s"),
    Rejection(
        "address_bytes",
        429,
        "`EVENFLOW_REQUEST_BYTES_PER_ADDRESS_PER_SECOND`",
        "when earlier bytes are paid off",
    ),
    Rejection("message_too_large", 413, "`EVENFLOW_REQUEST_BYTES`, `EVENFLOW_MESSAGE_BYTES`"),
    Rejection("array_above_max_length", 400, "`EVENFLOW_MESSAGES_PER_REQUEST`"),
    Rejection("node_memory", 503, "`EVENFLOW_REQUESTS_HELD_BYTES`", "1 s"),
)
"""The limits by which a call that brings a message is rejected before the message is checked."""


class CallIntake:
    """Checks calls by the terms of their routes, before the endpoints are called."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def admitted(self, route: Route, endpoint: RequestHandler) -> RequestHandler:
        """The endpoint of a route, called only for admitted calls."""
        terms = route.terms
        if terms.bound is Bound.MACHINE:
            return self._throttled(endpoint)
        requests = self._context.metrics.labelled(HTTP_REQUESTS)

        async def answer(request: web.Request) -> web.StreamResponse:
            requests.count(route.protocol.name)
            request[PROTOCOL] = route.protocol.name
            rate_keys = request[RATE_KEYS] = await self._identify(request, route)
            await throttle(self._context, rate_keys, terms.cost)
            if terms.bound is Bound.STREAM:
                with self._context.calls.streaming(rate_keys):
                    response = await endpoint(request)
            else:
                response = await endpoint(request)
            if isinstance(response, web.Response) and isinstance(response.body, bytes):
                charge_answer(request, self._context, len(response.body))
            return response

        return answer

    def _throttled(self, endpoint: RequestHandler) -> RequestHandler:
        """An endpoint of this machine, whose calls are charged to their address alone."""

        async def answer(request: web.Request) -> web.StreamResponse:
            await self.throttle_anonymous(request)
            return await endpoint(request)

        return answer

    async def throttle_anonymous(self, request: web.Request) -> None:
        """Charge a call to its address alone, such as one of an unknown path.

        Raises:
            RateLimited: it would have to wait too long.
        """
        await throttle(self._context, self._anonymous(request), _UNKNOWN_PATH_COST)

    async def _identify(self, request: web.Request, route: Route) -> RateKeys:
        """Find the rate keys of the caller.

        Raises:
            AuthenticationFailed: the request has no valid credential.
            NotPermitted: the credential lacks the right, or is for something else.
            RateLimited: as for `throttle_anonymous`. A rejected call is charged to its address.
        """
        try:
            return await self._verify(request, route)
        except EvenflowError:
            await self.throttle_anonymous(request)
            raise

    async def _verify(self, request: web.Request, route: Route) -> RateKeys:
        context, terms = self._context, route.terms
        if terms.right is None or terms.bound is Bound.SOCKET:
            # A plain request to a WebSocket path is rejected.
            return self._rate_keys_by_key(request)
        if terms.credential is Credential.SENDER:
            sender = request[SENDER] = await verified_sender(request, context, terms.right)
            return rate_keys_of(sender, context)
        if terms.credential is Credential.SESSION:
            claims = verified_claims(request, context.access, terms.right)
        elif _is_from_replica(request, route):
            request[CLAIMS] = peer_claims(request, context.access)
            return RateKeys()
        else:
            cookie = request.cookies.get(EVENTS_COOKIE) if route is EVENTS else None
            claims = reader_claims(request, context.access, terms.right, cookie)
        request[CLAIMS] = claims
        return token_rate_keys(claims, address_of(request, context.site), context)

    def _rate_keys_by_key(self, request: web.Request) -> RateKeys:
        """The rate keys of a caller of a route that needs no right, by its key if it has one."""
        context, headers = self._context, request.headers
        credential = bearer(headers.get("Authorization")) or headers.get(API_KEY)
        known = context.tenants.with_key(credential, context.wall_time())
        if known is None:
            return self._anonymous(request)
        return RateKeys(account=(known.tenant.id, known.key.id))

    def _anonymous(self, request: web.Request) -> RateKeys:
        return anonymous_rate_keys(address_of(request, self._context.site))


def _is_from_replica(request: web.Request, route: Route) -> bool:
    """Whether the request comes from a replica on another node."""
    if route is EVENTS:
        return number_of_query(request, "joined", 1) == 0
    return route is PRESENCE and READERS_OF_NODE in request.query
