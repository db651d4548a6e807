"""A bounded queue that is fair: everybody gets their turn, however much others have queued."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import count
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.queue.address_queue import AddressQueue, Waiting, in_turns, largest
from evenflow.stream_core.queue.level_turns import LevelTurns
from evenflow.stream_core.queue.token_counters import TokenCounters

T = TypeVar("T")

LEAST_SHARE = 0.05
"""Of the turns, for whoever comes behind others and waits."""
_CLASSES = tuple(ServiceClass)


def _anything(_item: object) -> bool:
    return True


def _nothing(_tenant: str, _kind: Hashable) -> bool:
    return False


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

    def urgency(self, tenant: str) -> int:
        """The place of the most urgent class in which something of a tenant waits, 0 for the first.
        Behind the last one if nothing does.
        """
        places = enumerate(self._classes.values())
        return next((at for at, it in places if tenant in it.tenants), len(_CLASSES))

    def put(
        self, line: Line, item: T, wanted_by: float | None = None, kind: Hashable = None
    ) -> None:
        """Add an item.

        Args:
            wanted_by: when its first token is wanted, in seconds of any clock. None: when it can.
            kind: what it has in common with others that may be taken at the same times.

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
        addresses: OrderedDict[str, AddressQueue[T]] = tenants.setdefault(
            line.tenant, OrderedDict()
        )
        if line.address not in addresses:
            addresses[line.address] = AddressQueue(self._share)
        arrival = None if wanted_by is None else (wanted_by, next(self._arrivals))
        addresses[line.address].put(line.session, Waiting(item, kind), arrival)

    def pass_by(self, line: Line) -> None:
        """Note a turn of one that needs not wait."""
        if line.tenant not in self._waiting:
            self._counters.comes(line.tenant, self._waiting)
        self._counters.takes_turn(line.tenant)

    def take(
        self,
        but: tuple[str, str] | None = None,
        admits: Callable[[T], bool] = _anything,
        closed: Callable[[str, Any], bool] = _nothing,
    ) -> T | None:
        """Remove and return the item whose turn it is. None if none waits.

        Args:
            but: a sender who gets no turn now. Nor do tenants that were given more than its own,
                where that waits: they don't get ahead.
            admits: whether an item may be taken now. Behind one that may not its line waits.
            closed: whether no item of a tenant that is of this kind may be taken now. Where all
                kinds of an address are closed, none of its items is looked at.
        """
        waiting = [bool(self._classes[name].tenants) for name in _CLASSES]
        for level in self._turns.order(waiting):
            taken = self._take_of(_CLASSES[level], but, admits, closed)
            if taken is not None:
                self._turns.took(level, waiting)
                return taken
        return None

    def in_order(self) -> Iterator[T]:
        """What waits, about in the order in which it is taken if nothing more comes."""
        for of_class in self._classes.values():
            tenants = sorted(of_class.tenants.items(), key=lambda each: self._counters.of(each[0]))
            yield from in_turns(
                in_turns(address.in_order() for address in addresses.values())
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
        most = largest(self._waiting)
        if self._waiting[most] > self._waiting[line.tenant] + 1:
            return self._newest(most, largest(self._sizes(most)))
        sizes = self._sizes(line.tenant)
        if not sizes:
            return None
        address = largest(sizes)
        more = sizes[address] > sizes[line.address] + 1
        return self._newest(line.tenant, address) if more else None

    def _take_of(
        self,
        service_class: ServiceClass,
        but: tuple[str, str] | None,
        admits: Callable[[T], bool],
        closed: Callable[[str, Any], bool],
    ) -> T | None:
        tenants = self._classes[service_class].tenants
        for tenant in self._by_counter(tenants, None if but is None else but[0]):
            for address, of_address in tenants[tenant].items():
                if (tenant, address) == but or all(closed(tenant, it) for it in of_address.kinds):
                    continue
                if (taken := of_address.take(admits)) is not None:
                    self._classes[service_class].moves_back(tenant, address)
                    self._left(service_class, tenant, address)
                    self._counters.takes_turn(tenant)
                    return taken
        return None

    def _by_counter(self, tenants: Collection[str], last: str | None) -> Iterator[str]:
        """Tenants, who was given least first. Of several whose last turn was longest ago.

        Args:
            last: who was given more than this one is left out, if this one is there.
        """
        counter_of = self._counters.of
        if not tenants:
            return
        # The first one is mostly enough.
        yield (first := min(tenants, key=counter_of) if len(tenants) > 1 else next(iter(tenants)))
        most = counter_of(last) if last is not None and last in tenants else inf
        for tenant in sorted(tenants, key=counter_of):
            if counter_of(tenant) > most:
                return
            if tenant != first:
                yield tenant

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


class _Class(Generic[T]):
    """What waits of one service class."""

    __slots__ = ("tenants",)

    def __init__(self) -> None:
        self.tenants: OrderedDict[str, OrderedDict[str, AddressQueue[T]]] = OrderedDict()

    def moves_back(self, tenant: str, address: str) -> None:
        """Both have had their turn."""
        self.tenants[tenant].move_to_end(address)
        self.tenants.move_to_end(tenant)
