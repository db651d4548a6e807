"""How evenly connections come: what a drain promises to the nodes that receive its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

_WINDOW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ArrivalRate:
    """Connections per window of 100 ms.

    `above`: the share of all that came in excess of what their window may have.
    """

    connections: int
    allowed: float
    most: int
    above: float

    def __str__(self) -> str:
        return (
            f"{self.connections:,} arrivals, at most {self.most} in 100 ms where {self.allowed:g} "
            f"are due: {100 * self.above:.2f} % above the rate"
        )


def arrival_rate(moments: Sequence[float], per_second: float) -> ArrivalRate:
    """How evenly these connections came. The first one begins the first window."""
    allowed = per_second * _WINDOW_SECONDS
    if not moments:
        return ArrivalRate(0, allowed, 0, 0.0)
    first = min(moments)
    windows = Counter(floor((moment - first) / _WINDOW_SECONDS) for moment in moments)
    above = sum(max(0.0, count - allowed) for count in windows.values())
    return ArrivalRate(len(moments), allowed, max(windows.values()), above / len(moments))
