"""Admission: whether a client may connect. It is the same for every transport."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.stream_core.metrics.metric_catalogue import CONNECTIONS_REFUSED
from evenflow.stream_core.policy.session_token import SessionClaims
from evenflow.stream_core.protocol.client_session import ClientSession
from evenflow.stream_core.protocol.dialect import Dialect
from evenflow.stream_core.protocol.ending_frames import CloseCode
from evenflow.stream_core.protocol.errors import Overloaded
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
        Overloaded: the node is leaving or full, or too many clients come back at once.
        RateLimited: the session, its tenant, key or user has as many connections as allowed.
    """
    now, sender = context.wall_time(), context.sender(claims.channel, address)
    counted = claims.channel if claims.only_for is None and not claims.watches else None
    try:
        if context.orchestrator.draining:
            raise Overloaded(
                "this node is leaving; connect again", code="draining", retry_after_ms=1000
            )
        context.registry.check(counted, sender, replaces)
        older = context.registry.own_of(counted) if replaces and counted is not None else ()
        if not older:
            payer = Payer(sender[0], claims.key, claims.known_user, claims.shared)
            context.quotas.check_connection(payer)
        context.reconnects.check(claims, address, now, asked_at)
    except Overloaded:
        context.metrics.counter(CONNECTIONS_REFUSED).value += 1
        raise
    for each in older:
        each.close(
            CloseCode.REPLACED, "a newer connection of this session asked to replace this one"
        )
    expires_in = claims.expires_at - now
    session = ClientSession(
        claims, context.limits, expires_in=expires_in, now=asked_at, dialect=dialect
    )
    return ClientConnection(context, session, asked_at, sender)
