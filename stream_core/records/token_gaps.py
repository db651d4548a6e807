"""The time between tokens of one answer, counted in a few logarithmic buckets."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

STALL_SECONDS = 1.0
"""A longer silence within an answer is a stall."""

# From 1 ms to 55 s, each 19 % above the one before.
_BOUNDS = tuple(0.001 * 2 ** (step / 4) for step in range(64))


class GapSummary(NamedTuple):
    """The time between tokens, in seconds. `p50` and `p95` are at most 19 % too long."""

    p50: float
    p95: float
    longest: float
    stalls: int


class TokenGaps:
    """Counts the seconds between tokens.

    Tokens that are delivered together have come since the delivery before, evenly as far as anybody
    knows. So it costs nothing for each token.

    Args:
        tokens: how many tokens there were at the first delivery.
    """

    __slots__ = ("_counts", "_longest", "_notable", "_paused_at", "_stalls", "_tokens")

    def __init__(self, tokens: int) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._tokens = tokens
        self._notable = 0.0  # a longer silence is the longest so far, or a stall
        self._paused_at = -1.0
        self._longest = 0.0
        self._stalls = 0

    def record(self, gap: float, tokens: int, now: float) -> None:
        """Count a delivery, `gap` seconds after the one before. There are so many tokens by now."""
        new = tokens - self._tokens
        if new:
            self._tokens = tokens
            self._counts[bisect_left(_BOUNDS, gap / new)] += new
        if gap > self._notable:
            self._note_silence(gap, now)

    def pause(self, now: float) -> None:
        """The model isn't read, since its readers pause: the gap that runs now is no silence."""
        self._paused_at = now

    def summary(self) -> GapSummary | None:
        """What was counted. None where it was nothing."""
        seen = list(accumulate(self._counts))
        if not seen[-1]:
            return None
        bounds, longest = (*_BOUNDS, self._longest), self._longest
        p50, p95 = (
            min(longest, bounds[bisect_left(seen, seen[-1] * share)]) for share in (0.5, 0.95)
        )
        return GapSummary(p50, p95, longest, self._stalls)

    def _note_silence(self, gap: float, now: float) -> None:
        if self._paused_at >= now - gap:
            return
        self._longest = max(self._longest, gap)
        self._stalls += gap > STALL_SECONDS
        self._notable = min(self._longest, STALL_SECONDS)
