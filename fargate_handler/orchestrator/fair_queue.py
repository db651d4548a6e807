"""A bounded queue that is fair: each tenant gets its turn, however much others have queued."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """The queue is full. Nothing was added."""


class FairQueue(Generic[T]):
    """First in, first out within a tenant; round robin between tenants.

    Args:
        depth: the most items of all tenants together.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, tenant: str, item: T) -> None:
        """Add an item.

        Raises:
            QueueFull: there is no room.
        """
        if self._size >= self._depth:
            raise QueueFull
        self._lines.setdefault(tenant, deque()).append(item)
        self._size += 1

    def take(self) -> T | None:
        """Remove and return the oldest item of the tenant whose turn it is. None if none waits."""
        if not self._lines:
            return None
        tenant, line = next(iter(self._lines.items()))
        item = line.popleft()
        self._size -= 1
        if line:
            self._lines.move_to_end(tenant)
        else:
            del self._lines[tenant]
        return item

    def remove(self, tenant: str, item: T) -> None:
        """Remove an item, if it still waits."""
        line = self._lines.get(tenant)
        if line is None or item not in line:
            return
        line.remove(item)
        self._size -= 1
        if not line:
            del self._lines[tenant]
