"""A bounded queue that is fair: everybody gets their turn, however much others have queued."""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from stream_core.fairness.level_turns import LevelTurns
from stream_core.fairness.token_counters import TokenCounters
from stream_core.tenants.tenant import ServiceClass

T = TypeVar("T")

LEAST_SHARE = 0.05
"""Of the turns, for whoever comes behind others and waits."""
_CLASSES = tuple(ServiceClass)


def _anything(_item: object) -> bool:
    return True


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
    service_class: ServiceClass = ServiceClass.STANDARD

    @property
    def sender(self) -> tuple[str, str]:
        """Whose share it is counted to. Anybody can open sessions."""
        return self.tenant, self.address


class FairQueue(Generic[T]):
    """Service classes in their order, then the tenant that was given least, for its weight.

    Of a tenant addresses take turns. Of an address come first those that are wanted by a time, the
    earliest before all. Then its sessions take turns. A line is first in, first out.

    Args:
        depth: the most items of all lines together.
        counters: what tenants were given. It is told who comes and who has a turn.
        least_share: of the turns, for a class that waits behind a higher one, and for what is
            wanted by no time.
    """

    def __init__(
        self,
        depth: int,
        counters: TokenCounters | None = None,
        least_share: float = LEAST_SHARE,
    ) -> None:
        self._depth = depth
        self._counters = counters or TokenCounters()
        self._share = least_share
        self._turns = LevelTurns(len(_CLASSES), least_share)
        self._classes = {name: _Class[T]() for name in _CLASSES}
        self._waiting: Counter[str] = Counter()
        self._size = 0
        self._arrivals = count()

    def __len__(self) -> int:
        return self._size

    @property
    def tenants(self) -> Collection[str]:
        """The tenants of whom something waits."""
        return self._waiting.keys()

    def waits(self, service_class: ServiceClass) -> bool:
        """Whether anything of this class waits."""
        return bool(self._classes[service_class].tenants)

    def put(self, line: Line, item: T, wanted_by: float | None = None) -> None:
        """Add an item.

        Args:
            wanted_by: when its first token is wanted, in seconds of any clock. None: when it can.

        Raises:
            QueueFull: there is no room.
        """
        if self._size >= self._depth:
            raise QueueFull
        if line.tenant not in self._waiting:
            self._counters.comes(line.tenant, self._waiting)
        self._size += 1
        self._waiting[line.tenant] += 1
        tenants = self._classes[line.service_class].tenants
        addresses: OrderedDict[str, _Address[T]] = tenants.setdefault(line.tenant, OrderedDict())
        if line.address not in addresses:
            addresses[line.address] = _Address(self._share)
        arrival = None if wanted_by is None else (wanted_by, next(self._arrivals))
        addresses[line.address].put(line.session, item, arrival)

    def pass_by(self, line: Line) -> None:
        """Note a turn of one that needs not wait."""
        if line.tenant not in self._waiting:
            self._counters.comes(line.tenant, self._waiting)
        self._counters.takes_turn(line.tenant)

    def take(
        self,
        but: tuple[str, str] | None = None,
        admits: Callable[[T], bool] = _anything,
    ) -> T | None:
        """Remove and return the item whose turn it is. None if none waits.

        Args:
            but: a sender who gets no turn now. Nor do tenants that were given more than its own,
                where that waits: they don't get ahead.
            admits: whether an item may be taken now. Behind one that may not its line waits.
        """
        waiting = [bool(self._classes[name].tenants) for name in _CLASSES]
        for level in self._turns.order(waiting):
            taken = self._take_of(_CLASSES[level], but, admits)
            if taken is not None:
                self._turns.took(level, waiting)
                return taken
        return None

    def in_order(self) -> Iterator[T]:
        """What waits, about in the order in which it is taken if nothing more comes."""
        for of_class in self._classes.values():
            tenants = sorted(of_class.tenants.items(), key=lambda each: self._counters.of(each[0]))
            yield from _in_turns(
                _in_turns(address.in_order() for address in addresses.values())
                for _, addresses in tenants
            )

    def remove(self, line: Line, item: T) -> None:
        """Remove an item, if it still waits."""
        addresses = self._classes[line.service_class].tenants.get(line.tenant)
        address = None if addresses is None else addresses.get(line.address)
        if address is not None and address.remove(line.session, item):
            self._left(line.service_class, *line.sender)

    def displaced_by(self, line: Line) -> T | None:
        """The item that has to make room for one more of `line`: the newest of who has the most.

        Returns:
            None if no other tenant, and no other address of the same tenant, has more waiting than
            this one would have.
        """
        if not self._waiting:
            return None
        largest = _largest(self._waiting)
        if self._waiting[largest] > self._waiting[line.tenant] + 1:
            return self._newest(largest, _largest(self._sizes(largest)))
        sizes = self._sizes(line.tenant)
        if not sizes:
            return None
        address = _largest(sizes)
        more = sizes[address] > sizes[line.address] + 1
        return self._newest(line.tenant, address) if more else None

    def _take_of(
        self,
        service_class: ServiceClass,
        but: tuple[str, str] | None,
        admits: Callable[[T], bool],
    ) -> T | None:
        left = list(self._classes[service_class].tenants)
        counter_of = self._counters.of
        if but is not None and but[0] in left:
            left = [name for name in left if counter_of(name) <= counter_of(but[0])]
        while left:
            # Of several the one whose last turn was longest ago.
            tenant = left[0] if len(left) == 1 else min(left, key=counter_of)
            for address, of_address in self._classes[service_class].tenants[tenant].items():
                if (tenant, address) == but:
                    continue
                if (taken := of_address.take(admits)) is not None:
                    self._classes[service_class].moves_back(tenant, address)
                    self._left(service_class, tenant, address)
                    self._counters.takes_turn(tenant)
                    return taken
            left.remove(tenant)
        return None

    def _left(self, service_class: ServiceClass, tenant: str, address: str) -> None:
        """Note that an item has left its line."""
        self._size -= 1
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        tenants = self._classes[service_class].tenants
        if not tenants[tenant][address].size:
            del tenants[tenant][address]
        if not tenants[tenant]:
            del tenants[tenant]

    def _sizes(self, tenant: str) -> Counter[str]:
        """How much waits of each address of a tenant."""
        sizes: Counter[str] = Counter()
        for of_class in self._classes.values():
            for address, waiting in of_class.tenants.get(tenant, {}).items():
                sizes[address] += waiting.size
        return sizes

    def _newest(self, tenant: str, address: str) -> T | None:
        """The newest item of an address, of its lowest class."""
        for of_class in reversed(self._classes.values()):
            addresses = of_class.tenants.get(tenant)
            if addresses is not None and address in addresses:
                return addresses[address].newest
        return None


def _in_turns(lines: Iterable[Iterator[T]]) -> Iterator[T]:
    """The items of several lines, of each one after the other."""
    turns = deque(lines)
    while turns:
        line = turns.popleft()
        for item in line:
            yield item
            turns.append(line)
            break


def _largest(sizes: Mapping[str, int]) -> str:
    """Who has most; of several the one who came last."""
    return max(reversed([*sizes]), key=lambda name: sizes[name])


class _Class(Generic[T]):
    """What waits of one service class."""

    __slots__ = ("tenants",)

    def __init__(self) -> None:
        self.tenants: OrderedDict[str, OrderedDict[str, _Address[T]]] = OrderedDict()

    def moves_back(self, tenant: str, address: str) -> None:
        """Both have had their turn."""
        self.tenants[tenant].move_to_end(address)
        self.tenants.move_to_end(tenant)


class _Address(Generic[T]):
    """What waits of one address."""

    __slots__ = ("_sessions", "_turns", "_urgent", "size")

    def __init__(self, least_share: float) -> None:
        self._sessions: OrderedDict[str, deque[T]] = OrderedDict()
        self._urgent: list[tuple[tuple[float, int], T]] = []
        self._turns = LevelTurns(2, least_share)
        self.size = 0

    @property
    def newest(self) -> T:
        """The item that came last to the longest line. Those wanted by a time are left to last."""
        if not self._sessions:
            return self._urgent[-1][1]
        sizes = {name: len(line) for name, line in self._sessions.items()}
        return self._sessions[_largest(sizes)][-1]

    def put(self, session: str, item: T, arrival: tuple[float, int] | None) -> None:
        """Add an item, with when it is wanted and its place among those of the same time."""
        self.size += 1
        if arrival is None:
            self._sessions.setdefault(session, deque()).append(item)
        else:
            insort(self._urgent, (arrival, item), key=lambda entry: entry[0])

    def take(self, admits: Callable[[T], bool]) -> T | None:
        """Remove and return the item whose turn it is. None if none of the first ones may."""
        waiting = (bool(self._urgent), bool(self._sessions))
        for level in self._turns.order(waiting):
            taken = self._take_urgent(admits) if level == 0 else self._take_next(admits)
            if taken is not None:
                self.size -= 1
                self._turns.took(level, waiting)
                return taken
        return None

    def _take_urgent(self, admits: Callable[[T], bool]) -> T | None:
        return self._urgent.pop(0)[1] if admits(self._urgent[0][1]) else None

    def _take_next(self, admits: Callable[[T], bool]) -> T | None:
        for session, line in self._sessions.items():
            if admits(line[0]):
                item = line.popleft()
                self._sessions.move_to_end(session)
                if not line:
                    del self._sessions[session]
                return item
        return None

    def in_order(self) -> Iterator[T]:
        """What waits, about in its order."""
        yield from (item for _, item in self._urgent)
        yield from _in_turns(map(iter, self._sessions.values()))

    def remove(self, session: str, item: T) -> bool:
        """Remove an item. Returns whether it was there."""
        line = self._sessions.get(session)
        urgent = next((entry for entry in self._urgent if entry[1] == item), None)
        if line is not None and item in line:
            line.remove(item)
            if not line:
                del self._sessions[session]
        elif urgent is not None:
            self._urgent.remove(urgent)
        else:
            return False
        self.size -= 1
        return True
