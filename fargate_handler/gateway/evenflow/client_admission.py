"""Admits clients that open a connection, in every protocol and over every transport."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.connection_registry import OpenConnection
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.websocket.socket_connection import SocketConnection
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.http.routes import WEBSOCKET
from evenflow.stream_core.metrics.metric_catalogue import CONNECTIONS_REFUSED
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.dialect import Dialect


def admit_client(
    context: GatewayContext,
    claims: SessionClaims,
    dialect: Dialect,
    *,
    address: str,
    replaces: bool,
    asked_at: float,
) -> ClientConnection:
    """Admit a client whose transport is about to be ready. Returns its connection.

    Args:
        claims: the content of its verified token.
        dialect: how the client's frames are written.
        address: the client's, also behind proxies.
        replaces: whether to close the session's other connections.
        asked_at: the time of the handshake, in seconds on the monotonic clock.

    Raises:
        EvenflowError: as for `check_admission`, or too many clients reconnect at once.
    """
    now = context.wall_time()
    session = ClientSession(
        claims,
        context.limits,
        expires_in=claims.expires_at - now,
        now=asked_at,
        dialect=dialect,
        check=partial(context.access.check_grant, AccessGrant.of(claims)),
    )
    sender = context.access.sender(claims.channel.tenant, address)
    connection = ClientConnection(context, session, asked_at, sender)
    replaced = check_admission(
        context,
        connection,
        replaces=replaces,
        check_reconnect=partial(context.reconnects.check, claims, address, now, asked_at),
    )
    for each in replaced:
        each.close(
            CloseCode.REPLACED, "a newer connection of this session asked to replace this one"
        )
    return connection


def check_admission(
    context: GatewayContext,
    connection: SocketConnection,
    *,
    replaces: bool = False,
    check_reconnect: Callable[[], None] = lambda: None,
) -> Collection[OpenConnection]:
    """Check that a connection may be opened. Returns the connections that it replaces.

    Args:
        connection: has no transport yet. Its handshake is charged to its caller.
        replaces: whether it replaces the session's other connections.
        check_reconnect: checks the rate of reconnecting clients. It may raise `Overloaded`.

    Raises:
        Overloaded: the node is leaving or full.
        RateLimited: the session, its tenant, key or user has as many connections as allowed, or
            the caller's calls come too fast.
    """
    context.calls.charge(connection.rate_keys, WEBSOCKET.terms.cost, context.monotonic())
    session = None if connection.watches else connection.counted_as
    try:
        if context.orchestrator.draining:
            raise Overloaded(
                "this node is leaving; connect again", code="draining", retry_after_ms=1000
            )
        context.registry.check(session, connection.sender, replaces)
        replaced = context.registry.own_of(session) if replaces and session is not None else ()
        if not replaced:
            context.quotas.check_connection(connection.payer)
        check_reconnect()
    except Overloaded:
        context.metrics.counter(CONNECTIONS_REFUSED).value += 1
        raise
    return replaced
