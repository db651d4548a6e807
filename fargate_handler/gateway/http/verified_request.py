"""What is known of a request: its client, its verified credential, and the response it names."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.access_control import (
    AccessControl,
    AccessGrant,
)
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import (
    PATIENCE_SECONDS,
    Progress,
    Resumption,
    resume,
)
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.auth.session_token import SessionClaims, for_peers
from evenflow.stream_core.base.client_address import Client
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.http.routes import EVENFLOW
from evenflow.stream_core.protocols.evenflow.session_init import bearer
from evenflow.stream_core.tenants.charges import Caller

API_KEY = "x-api-key"
CLIENT = web.RequestKey("client", Client)
"""The client that sent a request, once `client_of` has found it."""
PROTOCOL = web.RequestKey("protocol", str)
"""The protocol of its route."""
TENANT = web.RequestKey("tenant", str)
"""The tenant of a request, once its key or token was verified."""
PAYER = web.RequestKey("payer", Caller)
"""The tenant, key and user that it is counted for, likewise."""
CLAIMS = web.RequestKey("claims", SessionClaims)
"""The content of its session token, likewise."""
GRANT = web.RequestKey("grant", AccessGrant)
"""Its verified credential, likewise. Another node has none."""
READER = web.RequestKey("reader", str)
"""The user that its session token or share names."""


def client_of(request: web.Request, site: Site) -> Client:
    """The client that sent a request, also behind proxies. It is found once a request."""
    client = request.get(CLIENT)
    if client is None:
        client = request[CLIENT] = site.client(request.remote or "", request.headers)
    return client


def address_of(request: web.Request, site: Site) -> str:
    """The client's address, also behind proxies."""
    return client_of(request, site).address


def host_of(request: web.Request, site: Site) -> str:
    """The host that the client called: a trusted proxy's header, else `Host`. It may be empty."""
    return client_of(request, site).url.host or request.headers.get("Host", "")


def credentials_of(request: web.Request) -> str:
    """The key or token of a request, as it was sent. Empty where there is none."""
    headers = request.headers
    return headers.get("Authorization") or headers.get(API_KEY) or ""


def protocol_of(request: web.Request) -> str:
    """The protocol of a request."""
    known: str = request.get(PROTOCOL, EVENFLOW.name)
    return known


def epoch_of_query(request: web.Request) -> int | None:
    """The query parameter `epoch`. None if it is missing.

    Raises:
        InvalidRequest: it is not a whole number from 1 on.
    """
    return number_of_query(request, "epoch", 1, lowest=1) if "epoch" in request.query else None


def number_of_query(request: web.Request, name: str, default: int, lowest: int = 0) -> int:
    """A query parameter that is a whole number.

    Raises:
        InvalidRequest: it is not a whole number, or is below `lowest`.
    """
    return whole_number(name, request.query.get(name), default, lowest)


def claims_of(request: web.Request) -> SessionClaims:
    """The content of the request's token, which the intake has verified."""
    claims: SessionClaims = request[CLAIMS]
    return claims


def verified_claims(request: web.Request, access: AccessControl, right: Right) -> SessionClaims:
    """Verify the request's token, which has a right on the whole session.

    Raises:
        AuthenticationFailed: there is no token, or it is not valid.
        NotPermitted: it lacks the right.
    """
    token = bearer(request.headers.get("Authorization"))
    claims = access.tokens.verify_for(right, token, access.wall_time())
    return record_tenant(request, claims, access)


def reader_claims(
    request: web.Request, access: AccessControl, right: Right, cookie: str | None = None
) -> SessionClaims:
    """Verify the request's token, or its ticket for the response in the path.

    Args:
        cookie: the ticket in a cookie, where the route takes one.

    Raises:
        AuthenticationFailed: there is neither, or it is not valid.
        NotPermitted: it lacks the right.
    """
    header, response_id = request.headers.get("Authorization"), request.match_info["response_id"]
    now = access.wall_time()
    if header is None and cookie is not None:
        claims = access.tokens.verify(cookie, now, only_for=response_id)
    else:
        claims = access.tokens.verify_for(right, bearer(header), now, response_id)
    return record_tenant(request, claims, access)


def record_tenant(
    request: web.Request, claims: SessionClaims, access: AccessControl
) -> SessionClaims:
    """Record the tenant, user and credential of a request. Returns the claims.

    Raises:
        AuthenticationFailed: the key that opened the session is no longer valid.
        NotPermitted: the tenant was removed.
        OriginNotAllowed: the tenant does not allow the page that calls.
    """
    tenant = request[TENANT] = claims.channel.tenant
    request[PAYER] = Caller(tenant, claims.key, claims.known_user, claims.shared)
    request[READER] = claims.user
    if not claims.of_task:
        request[GRANT] = AccessGrant.of(claims)
        access.tenants.check_valid(tenant, claims.key)
    host = host_of(request, access.site)
    access.check_origin(tenant, request.headers.get("Origin"), host)
    return claims


def peer_claims(request: web.Request, access: AccessControl) -> SessionClaims:
    """Verify the token of another node, which replicates the response in the path.

    Raises:
        AuthenticationFailed: there is no such token, or it is not valid.
    """
    claims = access.tokens.verify(
        bearer(request.headers.get("Authorization")),
        access.wall_time(),
        only_for=for_peers(request.match_info["response_id"]),
    )
    return record_tenant(request, claims, access)


def user_of(request: web.Request) -> str:
    """The user of a request's token. Empty: it names none."""
    payer: Caller | None = request.get(PAYER)
    reader: str = request.get(READER, "")
    return reader or ("" if payer is None else payer.user)


def payer_of(request: web.Request, access: AccessControl) -> Caller | None:
    """The account that a request is counted for. None: no key and no token was verified."""
    payer: Caller | None = request.get(PAYER)
    if payer is None:
        return None
    tenant = access.counted_tenant(payer.tenant)
    return payer if tenant == payer.tenant else payer._replace(tenant=tenant)


async def requested_stream(request: web.Request, context: GatewayContext) -> ResponseStream:
    """The response in the path, of the token's session.

    Raises:
        NotFound: there is no such response, or it is another session's.
        Gone: it ended too long ago.
        Overloaded: the store can't be read, or the response is changing owners.
    """
    claims = claims_of(request)
    response_id = request.match_info["response_id"]
    return await context.orchestrator.find(
        response_id, claims.channel, check_ended=not claims.of_task
    )


async def requested_resumption(
    request: web.Request,
    context: GatewayContext,
    progress: Progress,
    patience: float = PATIENCE_SECONDS,
) -> Resumption:
    """The response in the path, and where its reader resumes.

    Raises:
        InvalidRequest: `after` or `epoch` is beyond the response's.
        RateLimited: the response has as many readers with shares as allowed.
        EvenflowError: as for `requested_stream`.
    """
    claims = claims_of(request)
    response_id = request.match_info["response_id"]
    # Another node checks it for its own reader, at the same time.
    found = await resume(
        context,
        response_id,
        claims.channel,
        progress,
        patience,
        check_ended=not claims.of_task,
    )
    if claims.shared:
        found.stream.readers.check_limit(shared=True)
    return found
