"""The time between tokens of one answer, counted in a few logarithmic buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

STALL_SECONDS = 1.0
"""A longer silence within an answer is a stall."""

GAP_BOUNDS = [0.001 * 2 ** (step / 4) for step in range(64)]
"""Seconds: from 1 ms to 55 s, each 19 % above the one before."""


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

    Attributes:
        tokens: how many there were at the last delivery.
        counts: how many came after a gap in each of `GAP_BOUNDS`, and after longer ones.
        notable: a longer silence is the longest so far, or a stall.
    """

    __slots__ = ("_longest", "_paused_at", "_stalls", "counts", "notable", "tokens")

    def __init__(self, tokens: int) -> None:
        self.counts = [0] * (len(GAP_BOUNDS) + 1)
        self.tokens = tokens
        self.notable = 0.0
        self._paused_at = -1.0
        self._longest = 0.0
        self._stalls = 0

    def record(self, gap: float, tokens: int, now: float) -> None:
        """Count a delivery, `gap` seconds after the one before. There are so many tokens by now."""
        new, self.tokens = tokens - self.tokens, tokens
        self.counts[bisect_left(GAP_BOUNDS, gap / (new or 1))] += new
        if gap > self.notable:
            self.note_silence(gap, now)

    def note_silence(self, gap: float, now: float) -> None:
        """Note a notable silence, which ends now."""
        if self._paused_at >= now - gap:
            return
        self._longest = max(self._longest, gap)
        self._stalls += gap > STALL_SECONDS
        self.notable = min(self._longest, STALL_SECONDS)

    def pause(self, now: float) -> None:
        """The model isn't read, since its readers pause: the gap that runs now is no silence."""
        self._paused_at = now

    def counted(self) -> Iterator[tuple[float, int]]:
        """Each gap in seconds, at most 19 % too long, and how many tokens came after it."""
        for seconds, count in zip((*GAP_BOUNDS, self._longest), self.counts, strict=True):
            if count:
                yield seconds, count

    def summary(self) -> GapSummary | None:
        """What was counted. None where it was nothing."""
        seen = list(accumulate(self.counts))
        if not seen[-1]:
            return None
        bounds, longest = (*GAP_BOUNDS, self._longest), self._longest
        p50, p95 = (
            min(longest, bounds[bisect_left(seen, seen[-1] * share)]) for share in (0.5, 0.95)
        )
        return GapSummary(p50, p95, longest, self._stalls)
