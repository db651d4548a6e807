"""Percentiles: of raw samples, and of what a Prometheus histogram gained between two scrapes."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

_SHARES = (50, 95, 99, 99.9)


@dataclass(frozen=True)
class Percentiles:
    """Of a sample, in the unit of the sample."""

    p50: float
    p95: float
    p99: float
    p999: float  # 99.9 %

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f}, p95 {self.p95:.1f}, p99 {self.p99:.1f}, p99.9 {self.p999:.1f}"

    def as_figures(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def percentiles(samples: ArrayLike) -> Percentiles:
    """Raises ValueError when there is no sample, so that nothing measured never reads as a good
    result.
    """
    values = np.asarray(samples, dtype=float)
    if not values.size:
        raise ValueError("no samples")
    return Percentiles(*(float(value) for value in np.percentile(values, _SHARES)))


def histogram_percentiles(
    before: Mapping[float, float], after: Mapping[float, float]
) -> Percentiles:
    """Of cumulative bucket counts by upper bound; linear within a bucket, as Prometheus's
    histogram_quantile.
    """
    gained = {bound: after[bound] - before.get(bound, 0.0) for bound in sorted(after)}
    return Percentiles(*(_quantile(gained.items(), share / 100) for share in _SHARES))


def _quantile(cumulative: Iterable[tuple[float, float]], share: float) -> float:
    buckets = list(cumulative)
    wanted = share * buckets[-1][1]
    if not wanted:
        raise ValueError("no samples")
    lower, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            return (
                lower
                if bound == float("inf")
                else lower + (bound - lower) * (wanted - below) / (count - below)
            )
        lower, below = bound, count
    raise ValueError("the buckets are not cumulative")
