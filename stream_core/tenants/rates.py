"""Rates a minute, with bursts of a minute's worth."""

from __future__ import annotations

import math
from typing import NamedTuple

from evenflow.stream_core.tenants.tenant import QuotaLimits

_MINUTE = 60.0
# Seconds. Times are sums of fractions: a shorter wait is none.
_ROUNDING = 1e-6


class Amount(NamedTuple):
    """The amount that a message uses."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def of(self, bound: str) -> int:
        """The part of it that a rate limit counts."""
        match bound:
            case "requests_per_minute":
                return self.requests
            case "input_tokens_per_minute":
                return self.input_tokens
            case "output_tokens_per_minute":
                return self.output_tokens
        return self.input_tokens + self.output_tokens

    def plus(self, more: Amount) -> Amount:
        """The sum of both."""
        return Amount(*(left + right for left, right in zip(self, more, strict=True)))

    def minus(self, less: Amount) -> Amount:
        """The difference. Negative where this one has less."""
        return Amount(*(left - right for left, right in zip(self, less, strict=True)))


NOTHING = Amount()
RATES = (
    "requests_per_minute",
    "tokens_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
)
"""The rate limits, as `QuotaLimits` names them."""


def rates_in(limits: QuotaLimits) -> list[tuple[str, int]]:
    """The rate limits that are set, each with its value."""
    rates = ((name, getattr(limits, name)) for name in RATES)
    return [(name, most) for name, most in rates if most is not None]


class Bucket:
    """The recent use of one rate limit, as a leaky bucket.

    It drains at the rate, so a full bucket in a minute. More than a full bucket is a debt, which
    has to drain before there is room again.

    Every `most` is the limit, which may change between two calls. Every `now` is in seconds of a
    clock that never goes back.
    """

    __slots__ = ("_at", "_lately", "_used")

    def __init__(self, now: float) -> None:
        self._at = now
        self._used = self._lately = 0.0

    def used(self, most: int, now: float) -> float:
        """The level."""
        elapsed = now - self._at
        if elapsed:
            self._used = max(0.0, self._used - elapsed * most / _MINUTE)
            self._lately *= math.exp(-elapsed / _MINUTE)
            self._at = now
        return self._used

    def lately(self, most: int, now: float) -> float:
        """The amount that was added within about a minute, drained or not."""
        self.used(most, now)
        return self._lately

    def remaining(self, most: int, now: float) -> int:
        """The room for more, rounded down. 0 where there is a debt."""
        return max(0, math.floor(most - self.used(most, now) + _ROUNDING))

    def empty_in(self, most: int, now: float) -> float:
        """Seconds until it is empty."""
        return self.used(most, now) * _MINUTE / most

    def wait(self, amount: int, most: int, now: float) -> float:
        """Seconds until there is room for `amount`. 0.0: there is.

        More than a minute's worth has room once the bucket is empty, and is a debt then.
        """
        over = self.used(most, now) + min(amount, most) - most
        seconds = over * _MINUTE / most
        return seconds if seconds > _ROUNDING else 0.0

    def add(self, amount: int, most: int, now: float) -> None:
        """Add `amount`, whether or not there is room. A negative one is removed."""
        self._used = max(0.0, self.used(most, now) + amount)
        self._lately = max(0.0, self._lately + amount)
