"""The queue of one client address: earliest deadline first, then sessions round-robin."""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from evenflow.stream_core.queue.level_turns import LevelTurns

T = TypeVar("T")


class Waiting(NamedTuple, Generic[T]):
    """A queued item, and the group of items that are admitted at the same times."""

    item: T
    group: Hashable


class AddressQueue(Generic[T]):
    """The queued items of one address."""

    __slots__ = ("_sessions", "_turns", "_urgent", "groups")

    def __init__(self, least_share: float) -> None:
        self._sessions: OrderedDict[str, deque[Waiting[T]]] = OrderedDict()
        self._urgent: list[tuple[tuple[float, int], Waiting[T]]] = []
        self._turns = LevelTurns(2, least_share)
        self.groups = Counter[Hashable]()
        """Queued items by group."""

    @property
    def size(self) -> int:
        """The number of queued items."""
        return self.groups.total()

    @property
    def newest(self) -> T:
        """The newest item of the session with most items. Items with a deadline are chosen last."""
        if not self._sessions:
            return self._urgent[-1][1].item
        sizes = {name: len(line) for name, line in self._sessions.items()}
        return self._sessions[largest(sizes)][-1].item

    def put(self, session: str, waiting: Waiting[T], arrival: tuple[float, int] | None) -> None:
        """Add an item. `arrival`: its deadline, and a number that orders equal deadlines."""
        self.groups[waiting.group] += 1
        if arrival is None:
            self._sessions.setdefault(session, deque()).append(waiting)
        else:
            insort(self._urgent, (arrival, waiting), key=lambda entry: entry[0])

    def take(self, admits: Callable[[T], bool]) -> T | None:
        """Remove and return the next item that is admitted. None if none is."""
        waiting = (bool(self._urgent), bool(self._sessions))
        for level in self._turns.order(waiting):
            taken = self._take_urgent(admits) if level == 0 else self._take_next(admits)
            if taken is not None:
                self._count_removed(taken)
                self._turns.record_turn(level, waiting)
                return taken.item
        return None

    def _take_urgent(self, admits: Callable[[T], bool]) -> Waiting[T] | None:
        for index, (_, waiting) in enumerate(self._urgent):
            if admits(waiting.item):
                del self._urgent[index]
                return waiting
        return None

    def _take_next(self, admits: Callable[[T], bool]) -> Waiting[T] | None:
        for session, line in self._sessions.items():
            if admits(line[0].item):
                waiting = line.popleft()
                self._sessions.move_to_end(session)
                if not line:
                    del self._sessions[session]
                return waiting
        return None

    def in_order(self) -> Iterator[T]:
        """The queued items, in about the order in which they are taken."""
        yield from (waiting.item for _, waiting in self._urgent)
        yield from (waiting.item for waiting in in_turns(map(iter, self._sessions.values())))

    def remove(self, session: str, item: T) -> bool:
        """Remove an item. Returns whether it was there."""
        waiting = self._remove_next(session, item) or self._take_urgent(lambda each: each == item)
        if waiting is None:
            return False
        self._count_removed(waiting)
        return True

    def _remove_next(self, session: str, item: T) -> Waiting[T] | None:
        line = self._sessions.get(session, deque())
        waiting = next((each for each in line if each.item == item), None)
        if waiting is not None:
            line.remove(waiting)
            if not line:
                del self._sessions[session]
        return waiting

    def _count_removed(self, waiting: Waiting[T]) -> None:
        self.groups[waiting.group] -= 1
        if not self.groups[waiting.group]:
            del self.groups[waiting.group]


def in_turns(lines: Iterable[Iterator[T]]) -> Iterator[T]:
    """The items of several lines, round-robin."""
    turns = deque(lines)
    while turns:
        line = turns.popleft()
        for item in line:
            yield item
            turns.append(line)
            break


def largest(sizes: Mapping[str, int]) -> str:
    """The name with the largest size. Ties: the last one."""
    return max(reversed([*sizes]), key=lambda name: sizes[name])
