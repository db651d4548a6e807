"""Refusals by a bound of a tenant, a key or a user."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.tenants.charges import Counted, Level
from evenflow.stream_core.tenants.rates import Amount

# Nobody knows when an answer ends, or a connection.
_AGAIN_MS = 1_000


def limit_name(level: Level, bound: str) -> str:
    """A bound as errors, frames and the log name it, such as `tenant.tokens_per_minute`."""
    return f"{level}.{bound}"


def refused_by_rate(counted: Sequence[Counted], amount: Amount, now: float) -> RateLimited | None:
    """The refusal by the bound that has room last. None: all have.

    It says when all have room, if nobody else comes meanwhile.
    """
    waits = [
        (seconds, level, bound, limits)
        for level, account, limits in counted
        for bound, seconds in account.waits(limits, amount, now)
    ]
    if not waits:
        return None
    seconds, level, bound, limits = max(waits, key=lambda each: each[0])
    most, unit = getattr(limits, bound), bound.removesuffix("_per_minute").replace("_", " ")
    wait_ms = math.ceil(seconds * 1000)
    return _refusal(
        level,
        bound,
        f"this {level} may use {most} {unit} a minute, and less is left than this message may "
        f"need; it was not accepted, send it again in {wait_ms} ms",
        wait_ms,
    )


def refused_by_answers(counted: Sequence[Counted]) -> RateLimited | None:
    """The refusal by who has as many answers as allowed. None: nobody has."""
    for level, account, limits in counted:
        most = limits.answers_at_once
        if most is not None and account.answers + account.other_answers >= most:
            return _refusal(
                level,
                "answers_at_once",
                f"this {level} may have {most} answers at once, and has them; the message was not "
                "accepted, send it again when one has ended",
                _AGAIN_MS,
            )
    return None


def refused_by_connections(counted: Sequence[Counted]) -> RateLimited | None:
    """The refusal by who has as many connections as allowed. None: nobody has."""
    for level, account, limits in counted:
        most = limits.connections
        if most is not None and account.connections + account.other_connections >= most:
            return _refusal(
                level,
                "connections",
                f"this {level} may have {most} connections, and has them; close one, or connect "
                "again later",
                _AGAIN_MS,
            )
    return None


def _refusal(level: Level, bound: str, message: str, retry_after_ms: int) -> RateLimited:
    return RateLimited(
        message,
        code=f"{level}_limit",
        retry_after_ms=retry_after_ms,
        limit=limit_name(level, bound),
    )
