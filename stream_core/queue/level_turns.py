"""Strict priority between levels, with a least share for each lower one."""

from __future__ import annotations

from collections.abc import Sequence

# A sum of shares that should be 1 may be a little less.
_A_TURN = 1 - 1e-9
_MOST_DUE = 2.0


class LevelTurns:
    """Chooses the level that is served next: the first that waits, but each later one has a share.

    A waiting level accrues its share of each turn, and gets a turn at 1. An idle level's credit is
    reset.

    Args:
        levels: the number of levels.
        share: of the turns, for each level behind the first one that waits.
    """

    __slots__ = ("_due", "_share")

    def __init__(self, levels: int, share: float) -> None:
        self._share = share
        self._due = [0.0] * levels

    def order(self, waiting: Sequence[bool]) -> list[int]:
        """The levels that wait, the next one first."""
        levels = [level for level, waits in enumerate(waiting) if waits]
        if len(levels) > 1:
            levels.sort(key=lambda level: (self._due[level] < _A_TURN, level))
        return levels

    def record_turn(self, taken: int, waiting: Sequence[bool]) -> None:
        """Record a turn.

        Args:
            taken: the level that got it.
            waiting: the levels that waited for it.
        """
        first = next((level for level, waits in enumerate(waiting) if waits), None)
        for level, waits in enumerate(waiting):
            if not waits or level == first:
                self._due[level] = 0.0
                continue
            # Items that may not start now save up one turn more.
            self._due[level] = min(self._due[level] + self._share, _MOST_DUE)
            if level == taken:
                self._due[level] = max(0.0, self._due[level] - 1)
