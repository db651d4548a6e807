"""Counts recent events by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class RecentCounts(Generic[Name]):
    """Counts events of the current period and the one before.

    Args:
        period: in seconds.
    """

    def __init__(self, period: float, now: float) -> None:
        self._period = period
        self._ends_at = now + period
        self._current: Counter[Name] = Counter()
        self._last: Counter[Name] = Counter()

    def add(self, name: Name, now: float) -> None:
        """Count an event of a name."""
        self._turn(now)
        self._current[name] += 1

    def of(self, name: Name, now: float) -> int:
        """The number of recent events of a name."""
        self._turn(now)
        return self._current[name] + self._last[name]

    def _turn(self, now: float) -> None:
        if now < self._ends_at:
            return
        is_next = now < self._ends_at + self._period
        self._last = self._current if is_next else Counter()
        self._current = Counter()
        self._ends_at = now + self._period
