"""A distribution of measured values in logarithmic buckets: constant memory, percentiles that can be trusted."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

# 3 buckets an octave keep a percentile within 26 % of the truth; 64 stay below CloudWatch's 100 values an array.
_LOWEST = 0.1
_BUCKETS_PER_OCTAVE = 3
_BUCKETS = 64


class Distribution:
    """Counts values by bucket. Values below the first bound fall in it, values above the last in an open bucket.

    `bounds[i]` is the inclusive upper bound of `counts[i]`; `counts[-1]` has none. The unit is the caller's.
    """

    __slots__ = ("_bounds", "counts", "total")

    BOUNDS: tuple[float, ...] = tuple(
        round(_LOWEST * 2 ** (i / _BUCKETS_PER_OCTAVE), 3) for i in range(_BUCKETS)
    )  # 0.1 … 209,715 (at milliseconds: 0.1 ms to three and a half minutes)

    def __init__(self) -> None:
        self._bounds = self.BOUNDS
        self.counts = [0] * (len(self.BOUNDS) + 1)
        self.total = 0.0

    def record(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were recorded."""
        return sum(self.counts)

    def percentile(self, p: float) -> float:
        """The p-th percentile (0–100), interpolated inside its bucket; 0.0 when nothing was recorded."""
        rank = self.count * p / 100
        seen = 0
        for count, (low, high) in zip(self.counts, pairwise((0.0, *self.BOUNDS, self.BOUNDS[-1])), strict=True):
            if count and seen + count >= rank:
                return low + (high - low) * (rank - seen) / count
            seen += count
        return 0.0
