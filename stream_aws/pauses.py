"""Pauses between calls that other tasks are in the way of."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.02
_SHARE_KEPT = 0.8  # of a pause after a call that met nobody
_SHORTEST_SECONDS = 0.002


class Pauses:
    """How long to wait before a partition's next call, by how its last ones went.

    A pause doubles when a call meets others or is throttled, and gets shorter when one doesn't. So
    tasks that change the same rows make fewer calls, each for more.

    Args:
        longest: in seconds.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seconds: dict[str, float] = {}

    def next(self, partition: str) -> float:
        """The seconds to wait. They are random, about the pause that there is."""
        return self._seconds.get(partition, 0.0) * random.uniform(0.5, 1.5)

    def lengthen(self, partition: str) -> None:
        """A call met others."""
        before = self._seconds.get(partition, _FIRST_SECONDS / 2)
        self._seconds[partition] = min(self._longest, 2 * before)

    def shorten(self, partition: str) -> None:
        """A call met nobody."""
        seconds = self._seconds.pop(partition, 0.0) * _SHARE_KEPT
        if seconds > _SHORTEST_SECONDS:
            self._seconds[partition] = seconds
