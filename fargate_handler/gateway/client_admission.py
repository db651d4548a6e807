"""Admits clients who want a connection, in every protocol and over every transport."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from evenflow.fargate_handler.gateway.access_grant import AccessGrant
from evenflow.fargate_handler.gateway.callers import bearer_of
from evenflow.fargate_handler.gateway.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.connection_registry import OpenConnection
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.stream_core.metrics.metric_catalogue import CONNECTIONS_REFUSED
from evenflow.stream_core.policy.call_rates import Caller
from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.session_token import SessionClaims
from evenflow.stream_core.protocol.client_session import ClientSession
from evenflow.stream_core.protocol.dialect import Dialect
from evenflow.stream_core.protocol.ending_frames import CloseCode
from evenflow.stream_core.protocol.errors import Overloaded
from evenflow.stream_core.protocol.routes import WEBSOCKET
from evenflow.stream_core.tenants.charges import Payer


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
        claims: the content of its token, which was verified.
        dialect: how the client's frames are written.
        address: the client's, as `TrustedProxies` says.
        replaces: whether to close the session's other connections.
        asked_at: when the client asked, in seconds on the monotonic clock.

    Raises:
        EvenflowError: as for `check_admission`, or too many clients come back at once.
    """
    now, sender = context.wall_time(), context.sender(claims.channel, address)
    older = check_admission(
        context,
        bearer_of(claims, address, context),
        claims.channel if claims.only_for is None and not claims.watches else None,
        sender,
        Payer(sender[0], claims.key, claims.known_user, claims.shared),
        replaces=replaces,
        check_return=partial(context.reconnects.check, claims, address, now, asked_at),
    )
    for each in older:
        each.close(
            CloseCode.REPLACED, "a newer connection of this session asked to replace this one"
        )
    session = ClientSession(
        claims,
        context.limits,
        expires_in=claims.expires_at - now,
        now=asked_at,
        dialect=dialect,
        check=partial(context.check_grant, AccessGrant.of(claims)),
    )
    return ClientConnection(context, session, asked_at, sender)


def check_admission(
    context: GatewayContext,
    caller: Caller,
    counted: Channel | None,
    sender: tuple[str, str],
    payer: Payer,
    *,
    replaces: bool = False,
    check_return: Callable[[], None] = lambda: None,
) -> Collection[OpenConnection]:
    """Check that there is a place for one more connection. Returns those that go for it.

    Args:
        counted: the session of whose places it takes one. None: of none.
        sender: the tenant and the address whose connection it is.
        payer: whom it is counted to.
        replaces: whether it replaces the session's other connections.
        check_return: checks the rate of clients that come back. It may refuse.

    Raises:
        Overloaded: the node is leaving or full.
        RateLimited: the session, its tenant, key or user has as many connections as allowed, or
            their calls come too fast.
    """
    context.calls.charge(caller, WEBSOCKET.terms.cost, context.monotonic())
    try:
        if context.orchestrator.draining:
            raise Overloaded(
                "this node is leaving; connect again", code="draining", retry_after_ms=1000
            )
        context.registry.check(counted, sender, replaces)
        older = context.registry.own_of(counted) if replaces and counted is not None else ()
        if not older:
            context.quotas.check_connection(payer)
        check_return()
    except Overloaded:
        context.metrics.counter(CONNECTIONS_REFUSED).value += 1
        raise
    return older
