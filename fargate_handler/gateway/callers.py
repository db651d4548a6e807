"""Whose calls are counted together, and how a call that comes too fast waits."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from aiohttp import web

from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.stream_core.policy.call_rates import Caller, cost_of_answer
from evenflow.stream_core.policy.client_address import is_of_this_machine
from evenflow.stream_core.policy.rights import Right
from evenflow.stream_core.policy.session_token import SessionClaims
from evenflow.stream_core.protocol.errors import RateLimited

CALLER = web.RequestKey("caller", Caller)
"""Whose call a request is, once the intake knows."""
# A client that doesn't heed a refusal would repeat its call at once.
_REFUSED_SECONDS = 1.0


def stranger(address: str) -> Caller:
    """Who has shown nothing. Behind a proxy of this machine that names nobody, all have its
    address.
    """
    return Caller(sender=None if is_of_this_machine(address) else address)


def bearer_of(claims: SessionClaims, address: str, context: GatewayContext) -> Caller:
    """Who shows a session's token, or a share or a ticket, which many may have.

    Where sessions are free to open, their address is counted, too.
    """
    session: Hashable = claims.channel
    if claims.only_for is not None or Right.WRITE not in claims.may:
        session = (claims.channel, claims.only_for, claims.user, address)
    sender = stranger(address).sender if context.tenants.open_to_all else None
    return Caller(session, sender)


async def pace(context: GatewayContext, caller: Caller, cost: float) -> None:
    """Charge a call, and wait for the earlier ones of its caller.

    Raises:
        RateLimited: it would have to wait too long.
    """
    try:
        wait = context.calls.charge(caller, cost, context.monotonic())
    except RateLimited:
        await asyncio.sleep(_REFUSED_SECONDS)
        raise
    if wait:
        await asyncio.sleep(wait)


def charge_answer(request: web.Request, context: GatewayContext, size: int) -> None:
    """Charge an answer of `size` bytes to the caller of a request."""
    caller = request.get(CALLER)
    if caller is not None:
        context.calls.add(caller, cost_of_answer(size), context.monotonic())
