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
        wait = self.wait(now, leaving)
        if not wait:
            self._level -= 1
        return wait

    def wait(self, now: float, leaving: float = 0.0) -> float:
        """Seconds until there is a token. 0.0: there is.

        Args:
            leaving: as for `take`.
        """
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1 + leaving:
            return 0.0
        return (1 + leaving - self._level) / self._rate

    def spend(self, amount: float) -> None:
        """Take so many tokens, also where that leaves a debt. `wait` was called at this time."""
        self._level -= amount
