"""Levels in their order, of which none starves."""

from __future__ import annotations

from collections.abc import Sequence

# A sum of shares that should be 1 may be a little less.
_A_TURN = 1 - 1e-9
_MOST_DUE = 2.0


class LevelTurns:
    """Which level has the next turn: the first that waits. A later one has a share at least.

    Who waits gathers its share of each turn, and has a turn once that is a whole one. Who doesn't
    wait gathers nothing.

    Args:
        levels: how many there are.
        share: of the turns, for each level behind the first one that waits.
    """

    __slots__ = ("_due", "_share")

    def __init__(self, levels: int, share: float) -> None:
        self._share = share
        self._due = [0.0] * levels

    def order(self, waiting: Sequence[bool]) -> list[int]:
        """The levels that wait. Whose turn it is comes first."""
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
            # One that may not begin now, whoever's turn it is, saves up one turn more.
            self._due[level] = min(self._due[level] + self._share, _MOST_DUE)
            if level == taken:
                self._due[level] = max(0.0, self._due[level] - 1)
