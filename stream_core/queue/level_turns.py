"""Strict priority between levels, with a least share for each lower one."""

from __future__ import annotations

from collections.abc import Sequence

# A sum of shares that should be 1 may be a little less.
_A_TURN = 1 - 1e-9
_MOST_DUE = 2.0


class LevelTurns:
    """Chooses the level that is served next: the first that waits, but each later one has a share.

    A level that waits accumulates its share of each turn, and is served once that is a whole one. A
    level that doesn't wait accumulates nothing.

    Args:
        levels: how many there are.
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

    def took(self, taken: int, waiting: Sequence[bool]) -> None:
        """Note a turn.

        Args:
            taken: the level that had it.
            waiting: the levels that waited for it.
        """
        first = next((level for level, waits in enumerate(waiting) if waits), None)
        for level, waits in enumerate(waiting):
            if not waits or level == first:
                self._due[level] = 0.0
                continue
            # A level that may not start now saves up one turn more.
            self._due[level] = min(self._due[level] + self._share, _MOST_DUE)
            if level == taken:
                self._due[level] = max(0.0, self._due[level] - 1)
