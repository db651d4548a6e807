"""Limits how fast clients reconnect, so that a reconnect storm does not keep new clients out."""

from __future__ import annotations

import math

from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.recent_counts import RecentCounts
from evenflow.stream_core.bounds.token_bucket import TokenBucket

# A client with an older token than this reconnects.
_NEW_SECONDS = 60.0
# Rejected clients are promised times one after the other, at the rate, so that each finds room.
# Clients that ignore their times must not postpone those of others without end.
_LONGEST_PROMISE_SECONDS = 60.0
_RECENT_SECONDS = 1.0
# Shares of the burst. An address that used more than the small one lately leaves the reserve free.
_SMALL = 1 / 16
_RESERVE = 1 / 4
# A session may open its most connections this many times. Then it leaves half of the burst free.
_TIMES = 2
_CONTENDED = 1 / 2


class ReconnectRate:
    """A token bucket for reconnecting clients.

    One address can use at most three quarters of the burst at once, and one session half of it. The
    rest is for other clients.

    Args:
        now: seconds on a monotonic clock.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        rate = limits.returning_connections_per_second
        self._burst = rate * 2
        self._gap = 1 / rate
        self._promised_at = now
        self._most_of_session = limits.connections_per_session * _TIMES
        self._returning = TokenBucket(rate, self._burst, now)
        self._of_address: RecentCounts[str] = RecentCounts(_RECENT_SECONDS, now)
        self._of_session: RecentCounts[Channel] = RecentCounts(_RECENT_SECONDS, now)

    def check(self, claims: SessionClaims, address: str, wall_time: float, now: float) -> None:
        """Check that this client may connect now, and count it.

        Args:
            address: of the client.

        Raises:
            Overloaded: too many clients reconnect at once.
        """
        session = claims.channel if claims.only_for is None and not claims.watches else None
        recent = self._of_session.of(session, now) if session is not None else 0
        # A session that was here a moment ago comes back, however new its token is.
        if recent or wall_time - claims.issued_at > _NEW_SECONDS:
            wait = self._returning.take(now, self._reserved_tokens(recent, address, now))
            if wait:
                raise Overloaded(
                    "too many clients come back at the same time; nothing is lost, connect again a "
                    "little later",
                    code="reconnect_storm",
                    retry_after_ms=math.ceil(self._promise(now, wait) * 1000) + 1,
                )
            self._of_address.add(address, now)
        if session is not None:
            self._of_session.add(session, now)

    def _promise(self, now: float, wait: float) -> float:
        """The seconds after which a rejected client finds room.

        Args:
            wait: until there is any room.
        """
        earliest = max(self._promised_at + self._gap, now + wait)
        self._promised_at = min(earliest, now + _LONGEST_PROMISE_SECONDS)
        return self._promised_at - now

    def _reserved_tokens(self, recent: int, address: str, now: float) -> float:
        """The tokens that this client must leave for others.

        Args:
            recent: the session's connections in the last second.
        """
        if recent >= self._most_of_session:
            return self._burst * _CONTENDED
        if self._of_address.of(address, now) > self._burst * _SMALL:
            return self._burst * _RESERVE
        return 0.0
