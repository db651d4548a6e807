"""The rate keys of callers, whose calls are counted together, and the throttling of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.client_address import is_of_this_machine
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.bounds.call_rates import RateKeys, cost_of_answer

RATE_KEYS = web.RequestKey("rate_keys", RateKeys)
"""The rate keys of a request, once the intake has identified its caller."""
# A client that ignores a rejection would repeat its call at once.
_REJECTION_DELAY_SECONDS = 1.0


def anonymous_rate_keys(address: str) -> RateKeys:
    """The rate keys of a caller without a credential, by its address.

    An address of this machine is not counted: all clients of a local proxy that sends no
    `X-Forwarded-For` share it.
    """
    return RateKeys(account=None if is_of_this_machine(address) else address)


def token_rate_keys(claims: SessionClaims, address: str, context: ClientContext) -> RateKeys:
    """The rate keys of a caller with a session's token, a share or a ticket, over every protocol.

    Many may have a share or a ticket: their keys differ by user and address. The calls of a
    tenant's sessions from one address count together, too.
    """
    session: Hashable = claims.channel
    if claims.only_for is not None or Right.WRITE not in claims.may:
        session = (claims.channel, claims.only_for, claims.user, address)
    account = anonymous_rate_keys(address).account
    if account is not None and not context.tenants.open_to_all:
        account = claims.channel.tenant, address
    return RateKeys(session, account)


async def throttle(context: ClientContext, rate_keys: RateKeys, cost: float) -> None:
    """Charge a call, and wait until the caller's earlier calls are paid off.

    Raises:
        RateLimited: it would have to wait too long.
    """
    try:
        wait = context.calls.charge(rate_keys, cost, context.monotonic())
    except RateLimited:
        await asyncio.sleep(_REJECTION_DELAY_SECONDS)
        raise
    if wait:
        await asyncio.sleep(wait)


def charge_answer(request: web.Request, context: ClientContext, size: int) -> None:
    """Charge an answer of `size` bytes to the caller of a request."""
    rate_keys = request.get(RATE_KEYS)
    if rate_keys is not None:
        context.calls.add(rate_keys, cost_of_answer(size), context.monotonic())
