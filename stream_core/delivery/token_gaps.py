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
        paused_at: when the model was last not read, since its readers paused. A gap with that in it
            is none of the model's, and isn't counted. Seconds.
    """

    __slots__ = ("_longest", "_notable", "_stalls", "counts", "paused_at", "tokens")

    def __init__(self, tokens: int) -> None:
        self.counts = [0] * (len(GAP_BOUNDS) + 1)
        self.tokens = tokens
        self._notable = 0.0  # a longer gap is the longest so far, or a stall
        self.paused_at = -1.0
        self._longest = 0.0
        self._stalls = 0

    def record(self, gap: float, tokens: int, now: float) -> None:
        """Count a delivery, `gap` seconds after the one before. There are so many tokens by now."""
        new, self.tokens = tokens - self.tokens, tokens
        if self.paused_at >= now - gap:
            return
        self.counts[bisect_left(GAP_BOUNDS, gap / (new or 1))] += new
        if gap > self._notable:
            self._note_silence(gap)

    def _note_silence(self, gap: float) -> None:
        self._longest = max(self._longest, gap)
        self._stalls += gap > STALL_SECONDS
        self._notable = min(self._longest, STALL_SECONDS)

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
