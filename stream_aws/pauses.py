"""Pauses between calls that conflict with those of other nodes."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.02
_SHARE_KEPT = 0.8  # of a pause, after a call without a conflict
_SHORTEST_SECONDS = 0.002


class Pauses:
    """Backoff: the pause before a partition's next call, from the outcome of its last ones.

    A conflict or throttling doubles the pause, and a success shortens it. So nodes that change the
    same rows make fewer and larger calls.

    Args:
        longest: the longest pause, in seconds.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seconds: dict[str, float] = {}

    def next(self, partition: str) -> float:
        """The seconds to wait: the current pause, with jitter."""
        return self._seconds.get(partition, 0.0) * random.uniform(0.5, 1.5)

    def lengthen(self, partition: str) -> None:
        """Double the pause, after a conflict."""
        before = self._seconds.get(partition, _FIRST_SECONDS / 2)
        self._seconds[partition] = min(self._longest, 2 * before)

    def shorten(self, partition: str) -> None:
        """Shorten the pause, after a call without a conflict."""
        seconds = self._seconds.pop(partition, 0.0) * _SHARE_KEPT
        if seconds > _SHORTEST_SECONDS:
            self._seconds[partition] = seconds
