"""A bounded queue that is fair between tenants: each gets its turn, however much another has queued."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """The queue holds as much as it may. Nothing was taken in."""


class FairQueue(Generic[T]):
    """First in, first out within a tenant; round robin between tenants.

    Args:
        depth: items of all tenants together.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, tenant: str, item: T) -> None:
        """Queue an item.

        Raises:
            QueueFull: there is no room.
        """
        if self._size >= self._depth:
            raise QueueFull
        self._lines.setdefault(tenant, deque()).append(item)
        self._size += 1

    def take(self) -> T | None:
        """The oldest item of the tenant whose turn it is; None when nothing waits."""
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
        """Take out an item that doesn't want to wait any longer, if it still waits."""
        line = self._lines.get(tenant)
        if line is None or item not in line:
            return
        line.remove(item)
        self._size -= 1
        if not line:
            del self._lines[tenant]
