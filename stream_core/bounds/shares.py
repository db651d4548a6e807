"""Divides a limited number of places, so that no name can block all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

EIGHTH, QUARTER = 8, 4


def with_those_for_others(most: int, part: int = EIGHTH) -> int:
    """The limit, and the reserve for others."""
    return most + most // part


class Shares(Generic[Name]):
    """Counts places by name.

    One name may take all places. While one has more than half, there is a reserve for others.

    Args:
        most: the number of places.
        part: the reserve, as `most` divided by this.
    """

    def __init__(self, most: int, part: int = EIGHTH) -> None:
        self._most = most
        self._with_those_for_others = with_those_for_others(most, part)
        self._count = 0
        self._of: Counter[Name] = Counter()
        self._largest: Name | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """Whether all places are taken, apart from the reserve."""
        return self._count >= self._most

    @property
    def greedy(self) -> Name | None:
        """The name with more than half, while the reserve is not used up. Otherwise None."""
        if self._largest is None or self._count >= self._with_those_for_others:
            return None
        return self._largest if self._of[self._largest] > self._most / 2 else None

    def has_room(self, name: Name) -> bool:
        """Whether there is a place for a name."""
        return not self.full or self.greedy not in (None, name)

    def add(self, name: Name) -> None:
        """Take a place for a name."""
        self._count += 1
        self._of[name] += 1
        if self._largest is None or self._of[name] > self._of[self._largest]:
            self._largest = name

    def remove(self, name: Name) -> None:
        """Give back a place of a name."""
        self._count -= 1
        self._of[name] -= 1
        # With the reserve two names may have more than half each.
        half = self._most / 2
        if name == self._largest and self._of[name] <= half < self._of[name] + 1:
            self._largest = next((each for each in self._of if self._of[each] > half), name)
        if not self._of[name]:
            del self._of[name]
