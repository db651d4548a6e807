"""How fair a stretch of time was, from when each tenant was given how much. Pure arithmetic."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

WINDOW_SECONDS = 10.0
EVERY_SECONDS = 1.0  # a window begins


@dataclass(frozen=True)
class Service:
    """What one tenant was given: so much at each moment (seconds), in order of time."""

    times: NDArray[np.float64]
    amounts: NDArray[np.float64]

    @classmethod
    def of(cls, given: Iterable[tuple[float, float]]) -> "Service":
        """From moments and amounts, in any order."""
        pairs = np.array(sorted(given), dtype=float).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def between(self, begin: float, end: float) -> float:
        """How much was given from `begin` on and before `end`."""
        return float(self.amounts[(self.times >= begin) & (self.times < end)].sum())


def jain(values: ArrayLike) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has it all.

    Raises:
        ValueError: nobody was given anything, so nothing measured never reads as fair.
    """
    given = np.asarray(values, dtype=float)
    if not given.any():
        raise ValueError("nobody was given anything")
    return float(given.sum() ** 2 / (given.size * np.square(given).sum()))


def jain_of_windows(
    services: Mapping[str, Service],
    begin: float,
    end: float,
    weights: Mapping[str, float] | None = None,
) -> list[float]:
    """Jain's index of each window between two moments; of what was given for a tenant's weight.

    Raises:
        ValueError: there is no room for a window.
    """
    starts = np.arange(begin, end - WINDOW_SECONDS + 1e-9, EVERY_SECONDS)
    if not starts.size:
        raise ValueError("shorter than a window")
    return [
        jain(
            [
                service.between(start, start + WINDOW_SECONDS) / (weights or {}).get(name, 1.0)
                for name, service in services.items()
            ]
        )
        for start in starts
    ]


def service_gap(one: Service, other: Service, begin: float, end: float) -> float:
    """The most by which one was given more than the other, in any stretch between two moments in
    which both waited for more.
    """
    ahead, most, least = 0.0, 0.0, 0.0
    changes = Counter[float]()
    for service, sign in ((one, 1.0), (other, -1.0)):
        for at, amount in zip(service.times, service.amounts, strict=True):
            if begin <= at < end:
                changes[at] += sign * amount
    for _, change in sorted(changes.items()):
        ahead += change
        most, least = max(most, ahead), min(least, ahead)
    return most - least


def largest_gap(services: Sequence[Service], begin: float, end: float) -> float:
    """Of any two of them."""
    return max(
        service_gap(one, other, begin, end)
        for place, one in enumerate(services)
        for other in services[place + 1 :]
    )
