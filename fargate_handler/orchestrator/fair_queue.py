"""A bounded queue that is fair: everybody gets their turn, however much others have queued."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """The queue is full. Nothing was added."""


class Line(NamedTuple):
    """Where a message waits. Tenants take turns, then a tenant's addresses, then their sessions.

    `address`: whose client it came from. Empty where that is not known.
    `session`: empty for requests with a tenant's key, which share a line.
    """

    tenant: str
    address: str = ""
    session: str = ""

    @property
    def sender(self) -> tuple[str, str]:
        """Whose share it is counted to. Anybody can open sessions."""
        return self.tenant, self.address


class FairQueue(Generic[T]):
    """First in, first out within a line; round robin between lines.

    Args:
        depth: the most items of all lines together.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._all: _Branch[T] = _Branch()

    def __len__(self) -> int:
        return self._all.size

    def put(self, line: Line, item: T) -> None:
        """Add an item.

        Raises:
            QueueFull: there is no room.
        """
        if self._all.size >= self._depth:
            raise QueueFull
        self._all.put(line, item)

    def take(
        self, but: tuple[str, str] | None = None, admits: Callable[[T], bool] | None = None
    ) -> T | None:
        """Remove and return the oldest item of the line whose turn it is. None if none waits.

        Args:
            but: a sender who gets no turn now.
            admits: whether an item may be taken now. Behind one that may not its line waits.
        """
        return self._all.take(but or (), admits)

    def in_order(self) -> Iterator[T]:
        """What waits, in the order in which it would be taken if nothing more came."""
        return self._all.in_order()

    def remove(self, line: Line, item: T) -> None:
        """Remove an item, if it still waits."""
        self._all.remove(line, item)

    def displaced_by(self, line: Line) -> T | None:
        """The item that has to make room for one more of `line`: the newest of who has the most.

        Returns:
            None if no other tenant, and no other address of the same tenant, has more waiting than
            this one would have.
        """
        branch = self._all
        for name in line.sender:
            largest, own = branch.largest, branch.branches.get(name)
            if largest is None:
                return None
            if largest.size > (own.size if own else 0) + 1:
                return largest.newest
            if own is None:
                return None
            branch = own
        return None


class _Branch(Generic[T]):
    """What waits under one name: branches that take turns, or at the end of a line its items."""

    __slots__ = ("branches", "items", "size")

    def __init__(self) -> None:
        self.branches: OrderedDict[str, _Branch[T]] = OrderedDict()
        self.items: deque[T] = deque()
        self.size = 0

    @property
    def largest(self) -> _Branch[T] | None:
        """The branch with the most items; of several the one whose turn comes last."""
        branches = reversed(self.branches.values())
        return max(branches, key=lambda branch: branch.size, default=None)

    @property
    def newest(self) -> T:
        """The item that came last to the longest line."""
        largest = self.largest
        return self.items[-1] if largest is None else largest.newest

    def put(self, names: tuple[str, ...], item: T) -> None:
        self.size += 1
        if names:
            self.branches.setdefault(names[0], _Branch()).put(names[1:], item)
        else:
            self.items.append(item)

    def take(self, but: tuple[str, ...], admits: Callable[[T], bool] | None) -> T | None:
        if self.items:
            if admits is not None and not admits(self.items[0]):
                return None
            self.size -= 1
            return self.items.popleft()
        for name, branch in self.branches.items():
            skipped = but[1:] if but[:1] == (name,) else None
            if skipped == () or (item := branch.take(skipped or (), admits)) is None:
                continue
            self.size -= 1
            if branch.size:
                self.branches.move_to_end(name)
            else:
                del self.branches[name]
            return item
        return None

    def in_order(self) -> Iterator[T]:
        yield from self.items
        turns = deque(branch.in_order() for branch in self.branches.values())
        while turns:
            branch = turns.popleft()
            for item in branch:
                yield item
                turns.append(branch)
                break

    def remove(self, names: tuple[str, ...], item: T) -> bool:
        """Remove the item, and branches that are then empty. Returns whether it was there."""
        if not names:
            if item not in self.items:
                return False
            self.items.remove(item)
            self.size -= 1
            return True
        branch = self.branches.get(names[0])
        if branch is None or not branch.remove(names[1:], item):
            return False
        self.size -= 1
        if not branch.size:
            del self.branches[names[0]]
        return True
