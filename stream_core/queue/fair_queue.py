"""A bounded fair queue: each tenant is served, however much others queue."""

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
"""The least share of turns of a lower class."""
_CLASSES = tuple(ServiceClass)


def _anything(_item: object) -> bool:
    return True


def _nothing(_tenant: str, _group: Hashable) -> bool:
    return False


class QueueFull(Exception):
    """The queue is full. Nothing was added."""


class Line(NamedTuple):
    """The line in which a message waits, by its tenant, address and session.

    `address`: of the client. Empty if unknown.
    `session`: empty for requests with a tenant's key, which share a line.
    """

    tenant: str
    address: str = ""
    session: str = ""
    service_class: ServiceClass = ServiceClass.STANDARD

    @property
    def sender(self) -> tuple[str, str]:
        """The tenant and address, between which a node's limits are shared.

        Sessions have no share, since one address can open many.
        """
        return self.tenant, self.address


class FairQueue(Generic[T]):
    """Service classes by priority, then the tenant with the lowest virtual counter.

    Within a tenant, addresses are served round-robin. Within an address, earliest deadline first,
    then sessions round-robin. A line is first in, first out.

    Args:
        depth: the most items in all lines.
        counters: the service of tenants. Updated on each arrival and turn.
        least_share: of the turns, for each lower class, and for items without a deadline.
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
        """The tenants with queued items."""
        return self._waiting.keys()

    def has_waiting(self, service_class: ServiceClass) -> bool:
        """Whether an item of this class is queued."""
        return bool(self._classes[service_class].tenants)

    def urgency(self, tenant: str) -> int:
        """The rank of the most urgent class in which a tenant has an item, from 0.

        The number of classes if it has none.
        """
        ranks = enumerate(self._classes.values())
        return next((rank for rank, each in ranks if tenant in each.tenants), len(_CLASSES))

    def put(
        self, line: Line, item: T, wanted_by: float | None = None, group: Hashable = None
    ) -> None:
        """Add an item.

        Args:
            wanted_by: the deadline of its first token, in seconds of any clock. None: it has none.
            group: items of one group are admitted at the same times.

        Raises:
            QueueFull: there is no room.
        """
        if self._size >= self._depth:
            raise QueueFull
        if line.tenant not in self._waiting:
            self._counters.record_arrival(line.tenant, self._waiting)
        self._size += 1
        self._waiting[line.tenant] += 1
        tenants = self._classes[line.service_class].tenants
        addresses: OrderedDict[str, AddressQueue[T]] = tenants.setdefault(
            line.tenant, OrderedDict()
        )
        if line.address not in addresses:
            addresses[line.address] = AddressQueue(self._share)
        arrival = None if wanted_by is None else (wanted_by, next(self._arrivals))
        addresses[line.address].put(line.session, Waiting(item, group), arrival)

    def record_immediate_turn(self, line: Line) -> None:
        """Record a start that did not queue."""
        if line.tenant not in self._waiting:
            self._counters.record_arrival(line.tenant, self._waiting)
        self._counters.record_turn(line.tenant)

    def take(
        self,
        excluded: tuple[str, str] | None = None,
        admits: Callable[[T], bool] = _anything,
        closed: Callable[[str, Any], bool] = _nothing,
    ) -> T | None:
        """Remove and return the next item. None if none is admitted.

        Args:
            excluded: a sender to pass over. While its tenant waits, tenants that were served more
                than that one are passed over, too.
            admits: whether an item may be taken now. If not, those behind it wait, too.
            closed: whether no item of this tenant and group may be taken now. An address with only
                closed groups is passed over.
        """
        waiting = [bool(self._classes[name].tenants) for name in _CLASSES]
        for level in self._turns.order(waiting):
            taken = self._take_of(_CLASSES[level], excluded, admits, closed)
            if taken is not None:
                self._turns.record_turn(level, waiting)
                return taken
        return None

    def in_order(self) -> Iterator[T]:
        """The queued items, in about the order in which they are taken."""
        for of_class in self._classes.values():
            tenants = sorted(of_class.tenants.items(), key=lambda each: self._counters.of(each[0]))
            yield from in_turns(
                in_turns(address.in_order() for address in addresses.values())
                for _, addresses in tenants
            )

    def remove(self, line: Line, item: T) -> None:
        """Remove an item, if it is still queued."""
        addresses = self._classes[line.service_class].tenants.get(line.tenant)
        address = None if addresses is None else addresses.get(line.address)
        if address is not None and address.remove(line.session, item):
            self._count_removed(line.service_class, *line.sender)

    def displaced_by(self, line: Line) -> T | None:
        """The item that makes room for one more: the newest of the sender with most waiting.

        Returns:
            None if no other tenant, and no other address of the same tenant, has more queued than
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
        excluded: tuple[str, str] | None,
        admits: Callable[[T], bool],
        closed: Callable[[str, Any], bool],
    ) -> T | None:
        tenants = self._classes[service_class].tenants
        for tenant in self._by_counter(tenants, None if excluded is None else excluded[0]):
            for address, of_address in tenants[tenant].items():
                if (tenant, address) == excluded or all(
                    closed(tenant, it) for it in of_address.groups
                ):
                    continue
                if (taken := of_address.take(admits)) is not None:
                    self._classes[service_class].move_to_end(tenant, address)
                    self._count_removed(service_class, tenant, address)
                    self._counters.record_turn(tenant)
                    return taken
        return None

    def _by_counter(self, tenants: Collection[str], last: str | None) -> Iterator[str]:
        """Tenants, the least served first. Ties: the longest since its last turn.

        Args:
            last: tenants with a higher counter than this one's are left out, if it is there.
        """
        counter_of = self._counters.of
        if not tenants:
            return
        # Mostly only the first one is needed.
        yield (first := min(tenants, key=counter_of) if len(tenants) > 1 else next(iter(tenants)))
        most = counter_of(last) if last is not None and last in tenants else inf
        for tenant in sorted(tenants, key=counter_of):
            if counter_of(tenant) > most:
                return
            if tenant != first:
                yield tenant

    def _count_removed(self, service_class: ServiceClass, tenant: str, address: str) -> None:
        """Count an item that was removed from its line."""
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
        """The queued items of a tenant, by address."""
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
    """The queued items of one service class."""

    __slots__ = ("tenants",)

    def __init__(self) -> None:
        self.tenants: OrderedDict[str, OrderedDict[str, AddressQueue[T]]] = OrderedDict()

    def move_to_end(self, tenant: str, address: str) -> None:
        """Move a served tenant and address to the end."""
        self.tenants[tenant].move_to_end(address)
        self.tenants.move_to_end(tenant)
