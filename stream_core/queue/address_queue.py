"""What waits of one client address: by when it is wanted, and in turns of sessions."""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from evenflow.stream_core.queue.level_turns import LevelTurns

T = TypeVar("T")


class Waiting(NamedTuple, Generic[T]):
    """An item, and its kind."""

    item: T
    kind: Hashable


class AddressQueue(Generic[T]):
    """What waits of one address."""

    __slots__ = ("_sessions", "_turns", "_urgent", "kinds")

    def __init__(self, least_share: float) -> None:
        self._sessions: OrderedDict[str, deque[Waiting[T]]] = OrderedDict()
        self._urgent: list[tuple[tuple[float, int], Waiting[T]]] = []
        self._turns = LevelTurns(2, least_share)
        self.kinds = Counter[Hashable]()
        """How much waits of each kind."""

    @property
    def size(self) -> int:
        """How much waits."""
        return self.kinds.total()

    @property
    def newest(self) -> T:
        """The item that came last to the longest line. Those wanted by a time are left to last."""
        if not self._sessions:
            return self._urgent[-1][1].item
        sizes = {name: len(line) for name, line in self._sessions.items()}
        return self._sessions[largest(sizes)][-1].item

    def put(self, session: str, waiting: Waiting[T], arrival: tuple[float, int] | None) -> None:
        """Add an item, with when it is wanted and its place among those of the same time."""
        self.kinds[waiting.kind] += 1
        if arrival is None:
            self._sessions.setdefault(session, deque()).append(waiting)
        else:
            insort(self._urgent, (arrival, waiting), key=lambda entry: entry[0])

    def take(self, admits: Callable[[T], bool]) -> T | None:
        """Remove and return the item whose turn it is. None if none may."""
        waiting = (bool(self._urgent), bool(self._sessions))
        for level in self._turns.order(waiting):
            taken = self._take_urgent(admits) if level == 0 else self._take_next(admits)
            if taken is not None:
                self._left(taken)
                self._turns.took(level, waiting)
                return taken.item
        return None

    def _take_urgent(self, admits: Callable[[T], bool]) -> Waiting[T] | None:
        for place, (_, waiting) in enumerate(self._urgent):
            if admits(waiting.item):
                del self._urgent[place]
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
        """What waits, about in its order."""
        yield from (waiting.item for _, waiting in self._urgent)
        yield from (waiting.item for waiting in in_turns(map(iter, self._sessions.values())))

    def remove(self, session: str, item: T) -> bool:
        """Remove an item. Returns whether it was there."""
        waiting = self._remove_next(session, item) or self._take_urgent(lambda it: it == item)
        if waiting is None:
            return False
        self._left(waiting)
        return True

    def _remove_next(self, session: str, item: T) -> Waiting[T] | None:
        line = self._sessions.get(session, deque())
        waiting = next((it for it in line if it.item == item), None)
        if waiting is not None:
            line.remove(waiting)
            if not line:
                del self._sessions[session]
        return waiting

    def _left(self, waiting: Waiting[T]) -> None:
        self.kinds[waiting.kind] -= 1
        if not self.kinds[waiting.kind]:
            del self.kinds[waiting.kind]


def in_turns(lines: Iterable[Iterator[T]]) -> Iterator[T]:
    """The items of several lines, of each one after the other."""
    turns = deque(lines)
    while turns:
        line = turns.popleft()
        for item in line:
            yield item
            turns.append(line)
            break


def largest(sizes: Mapping[str, int]) -> str:
    """Who has most; of several the one who came last."""
    return max(reversed([*sizes]), key=lambda name: sizes[name])
