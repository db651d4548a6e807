"""Orders in which waiting messages get their places, with the interface of Evenflow's own queue."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from fargate_handler.orchestrator.fair_queue import Line, QueueFull

T = TypeVar("T")


class FirstComeFirstServed(Generic[T]):
    """One line for all."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, _line: Line, item: T) -> None:
        if len(self._items) >= self._depth:
            raise QueueFull
        self._items.append(item)

    def take(self, but: tuple[str, str] | None = None) -> T | None:
        # A place that is not for everybody is not for the first in line either.
        return None if but is not None or not self._items else self._items.popleft()

    def remove(self, _line: Line, item: T) -> None:
        if item in self._items:
            self._items.remove(item)

    def displaced_by(self, _line: Line) -> T | None:
        return None


class RoundRobin(Generic[T]):
    """Tenants take turns, a message each, however long its answer is."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def put(self, line: Line, item: T) -> None:
        if len(self) >= self._depth:
            raise QueueFull
        self._lines.setdefault(line.tenant, deque()).append(item)

    def take(self, but: tuple[str, str] | None = None) -> T | None:
        for tenant, items in self._lines.items():
            if but is not None and tenant == but[0]:
                continue
            item = items.popleft()
            if items:
                self._lines.move_to_end(tenant)
            else:
                del self._lines[tenant]
            return item
        return None

    def remove(self, line: Line, item: T) -> None:
        items = self._lines.get(line.tenant, deque())
        if item in items:
            items.remove(item)
            if not items:
                del self._lines[line.tenant]

    def displaced_by(self, line: Line) -> T | None:
        most = max(self._lines.values(), key=len, default=deque[T]())
        own = len(self._lines.get(line.tenant, ()))
        return most[-1] if len(most) > own + 1 else None
