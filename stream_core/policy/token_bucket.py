"""A rate limit that allows bursts."""

from __future__ import annotations


class TokenBucket:
    """Holds `burst` tokens at most (one at least), refilled at `rate` a second; full at first."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = self._level = max(burst, 1.0)
        self._at = now

    def take(self, now: float) -> float:
        """Take one token: 0.0 when there was one, else the seconds until there will be (and nothing is taken)."""
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate
