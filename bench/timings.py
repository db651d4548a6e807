"""What a reader feels of an answer: how long until its first text, and the gaps after that."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from bench.client import Reader
from bench.distributions import Percentiles, percentiles


@dataclass(frozen=True)
class Timings:
    """Of many answers, in ms at the client."""

    first_token: Percentiles
    """From sending the question to the first text (TTFT)."""
    between: Percentiles
    """Between two frames with text of one answer (inter-token latency)."""
    stalls: int
    """Gaps of more than a second."""

    def __str__(self) -> str:
        return f"TTFT ms {self.first_token}; inter-token ms {self.between}; {self.stalls:,} stalls"

    def as_figures(self) -> dict[str, object]:
        return {
            "first_token_ms": self.first_token.as_figures(),
            "inter_token_ms": self.between.as_figures(),
            "stalls": self.stalls,
        }


def timings(readers: Sequence[Reader]) -> Timings:
    """Raises ValueError when no text came."""
    times = [reader.delta_arrivals(0.0, inf) for reader in readers]
    gaps = 1_000 * np.concatenate([np.diff(arrivals) for arrivals in times])
    first = [
        1_000 * (arrivals[0] - reader.asked_at)
        for reader, arrivals in zip(readers, times, strict=True)
        if len(arrivals)
    ]
    return Timings(percentiles(first), percentiles(gaps), int((gaps > 1_000).sum()))
