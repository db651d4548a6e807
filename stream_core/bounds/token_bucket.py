"""Rate limits that allow bursts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


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
            leaving: the tokens that must be left for others.
        """
        self._refill(now)
        if self._level >= 1 + leaving:
            self._level -= 1
            return 0.0
        return (1 + leaving - self._level) / self._rate

    def spend(self, now: float, tokens: float) -> None:
        """Take tokens for work that is done already. The level may fall below zero."""
        self._refill(now)
        self._level -= tokens

    def empty_for(self, now: float) -> float:
        """The seconds until there is a token again. 0.0: there is one."""
        self._refill(now)
        return max(0.0, (1 - self._level) / self._rate)

    def _refill(self, now: float) -> None:
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now


class TokenBuckets:
    """A token bucket for each name.

    Args:
        most_names: the number of remembered names. The least recently used are dropped first.
    """

    def __init__(self, rate: float, burst: float, most_names: int) -> None:
        self._rate = rate
        self._burst = burst
        self._most_names = most_names
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def find(self, name: Hashable) -> TokenBucket | None:
        """The bucket of a name that is remembered, or None."""
        return self._buckets.get(name)

    def use(self, name: Hashable, now: float) -> TokenBucket:
        """The bucket of a name, which is remembered from now on."""
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= self._most_names:
                self._buckets.popitem(last=False)
            bucket = self._buckets[name] = TokenBucket(self._rate, self._burst, now)
        else:
            self._buckets.move_to_end(name)
        return bucket
