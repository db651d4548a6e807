"""Orders in which waiting messages get their places, with the interface of Evenflow's own queue."""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.queue.fair_queue import Line, QueueFull
from evenflow.stream_core.queue.token_counters import TokenCounters

T = TypeVar("T")


class RoundRobin(Generic[T]):
    """Tenants take turns, a message each, however long its answer is."""

    def __init__(self, depth: int, _counters: TokenCounters, _least_share: float) -> None:
        self._depth = depth
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def tenants(self) -> Collection[str]:
        return self._lines.keys()

    def has_waiting(self, _service_class: ServiceClass) -> bool:
        """No class comes before another."""
        return False

    def urgency(self, _tenant: str) -> int:
        """All are of one class."""
        return 0

    def name_of(self, line: Line) -> str:
        """Who takes turns."""
        return line.tenant

    def put(self, line: Line, item: T, _wanted_by: float | None, _group: Hashable) -> None:
        if len(self) >= self._depth:
            raise QueueFull
        self._lines.setdefault(self.name_of(line), deque()).append(item)

    def record_immediate_turn(self, line: Line) -> None:
        """A start that did not queue counts for nothing."""

    def take(
        self,
        but: tuple[str, str] | None = None,
        admits: Callable[[T], bool] | None = None,
        closed: Callable[[str, Hashable], bool] | None = None,
    ) -> T | None:
        for name in self._lines:
            if but is None or name != but[0]:
                item = self._lines[name].popleft()
                self._lines.move_to_end(name)
                self._drop_if_empty(name)
                return item
        return None

    def remove(self, line: Line, item: T) -> None:
        name = self.name_of(line)
        if item in self._lines.get(name, ()):
            self._lines[name].remove(item)
            self._drop_if_empty(name)

    def displaced_by(self, line: Line) -> T | None:
        most = max(self._lines.values(), key=len, default=deque[T]())
        own = len(self._lines.get(self.name_of(line), ()))
        return most[-1] if len(most) > own + 1 else None

    def _drop_if_empty(self, name: str) -> None:
        if not self._lines[name]:
            del self._lines[name]


class FirstComeFirstServed(RoundRobin[T]):
    """One line for all."""

    def name_of(self, _line: Line) -> str:
        return ""

    def take(
        self,
        but: tuple[str, str] | None = None,
        admits: Callable[[T], bool] | None = None,
        closed: Callable[[str, Hashable], bool] | None = None,
    ) -> T | None:
        # A place that is not for everybody is not for the first in line either.
        return super().take() if but is None else None
