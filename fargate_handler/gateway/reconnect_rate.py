"""Limits how fast clients come back, so that a storm of them doesn't keep new ones out."""

from __future__ import annotations

import random

from stream_core.policy.limits import Limits
from stream_core.policy.session_token import SessionClaims
from stream_core.policy.token_bucket import TokenBucket
from stream_core.protocol.errors import Overloaded

# A client with an older token than this comes back.
_NEW_SECONDS = 60.0
# Refused clients are told to wait a random time between these, so that they don't come together.
_RETRY_MS = (500, 3_000)


class ReconnectRate:
    """Lets returning clients in at a bounded rate.

    Args:
        now: seconds on a monotonic clock.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        rate = limits.returning_connections_per_second
        self._returning = TokenBucket(rate, rate * 2, now)

    def check(self, claims: SessionClaims, wall_time: float, now: float) -> None:
        """Check that this client may connect now.

        Raises:
            Overloaded: too many clients come back at once.
        """
        if wall_time - claims.issued_at > _NEW_SECONDS and self._returning.take(now):
            raise Overloaded(
                "too many clients come back at the same time; nothing is lost, connect again a "
                "little later",
                code="reconnect_storm",
                retry_after_ms=random.randint(*_RETRY_MS),
            )
