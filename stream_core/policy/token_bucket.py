"""A rate limit that allows bursts."""

from __future__ import annotations


class TokenBucket:
    """At most `burst` tokens (at least one), refilled at `rate` a second. It begins full."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = self._level = max(burst, 1.0)
        self._at = now

    def take(self, now: float, leaving: float = 0.0) -> float:
        """Take a token. Returns 0.0, or the seconds until there is one; then none was taken.

        Args:
            leaving: how many must be left for others.
        """
        self._refill(now)
        if self._level >= 1 + leaving:
            self._level -= 1
            return 0.0
        return (1 + leaving - self._level) / self._rate

    def spend(self, now: float, tokens: float) -> None:
        """Take tokens for what is done already. The level may fall below zero."""
        self._refill(now)
        self._level -= tokens

    def empty_for(self, now: float) -> float:
        """The seconds until there is a token again. 0.0: there is one."""
        self._refill(now)
        return max(0.0, (1 - self._level) / self._rate)

    def _refill(self, now: float) -> None:
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
