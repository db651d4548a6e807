"""Items by their keys: partitions, each ordered by its sort key. Tables and indexes alike are kept so."""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from tests.dynamodb_emulator.attribute_values import Item, item_size
from tests.dynamodb_emulator.errors import invalid

LARGEST_ITEM = 400 * 1024

Position = tuple[Any, ...]
"""Where an item stands in its partition; empty in a table without a sort key."""

ItemKey = tuple[Any, Position]
"""A partition's key, and the position in it."""


class StoredItem(NamedTuple):
    """An item, as JSON: nobody can change it by accident, and most answers take it as it is."""

    json: bytes
    size: int

    @property
    def attributes(self) -> Item:
        """A copy of its attributes."""
        item: Item = orjson.loads(self.json)
        return item


def stored(item: Any) -> StoredItem:
    """An item, checked, for keeping."""
    size = item_size(item)
    if size > LARGEST_ITEM:
        raise invalid("Item size has exceeded the maximum allowed size")
    # A copy, since orjson's own bytes keep a buffer of 4 KB.
    return StoredItem(bytes(memoryview(orjson.dumps(item))), size)


@dataclass(slots=True)
class Partition:
    """The items of one partition key."""

    positions: list[Position] = field(default_factory=list)
    """In order."""
    items: dict[Position, StoredItem] = field(default_factory=dict)


class Partitions:
    """All items of a table or an index."""

    def __init__(self) -> None:
        self._partitions: dict[Any, Partition] = {}
        self._scan_order: list[tuple[int, Any]] | None = None

    def __iter__(self) -> Iterator[tuple[ItemKey, StoredItem]]:
        return self.after(None)

    def get(self, key: ItemKey) -> StoredItem | None:
        """The item with this key."""
        partition = self._partitions.get(key[0])
        return None if partition is None else partition.items.get(key[1])

    def put(self, key: ItemKey, item: StoredItem) -> None:
        """Keep an item, instead of the one that has its key."""
        partition = self._partitions.get(key[0])
        if partition is None:
            partition = self._partitions[key[0]] = Partition()
            self._scan_order = None
        if key[1] not in partition.items:
            insort(partition.positions, key[1])
        partition.items[key[1]] = item

    def remove(self, key: ItemKey) -> None:
        """Forget the item with this key, if there is one."""
        partition = self._partitions.get(key[0])
        if partition is None or partition.items.pop(key[1], None) is None:
            return
        del partition.positions[bisect_right(partition.positions, key[1]) - 1]
        if not partition.items:
            del self._partitions[key[0]]
            self._scan_order = None

    def partition(self, key: Any) -> Partition:
        """One partition; an empty one where there is none."""
        return self._partitions.get(key) or Partition()

    def after(self, key: ItemKey | None) -> Iterator[tuple[ItemKey, StoredItem]]:
        """All items behind this key, or all at all, in no order that means anything, but always the same."""
        if self._scan_order is None:
            self._scan_order = sorted(map(_place, self._partitions))
        first = 0
        if key is not None:
            yield from self._rest_of_partition(key)
            first = bisect_right(self._scan_order, _place(key[0]))
        for _, partition_key in self._scan_order[first:]:
            partition = self._partitions[partition_key]
            for position in partition.positions:
                yield (partition_key, position), partition.items[position]

    def _rest_of_partition(self, key: ItemKey) -> Iterator[tuple[ItemKey, StoredItem]]:
        partition = self.partition(key[0])
        for position in partition.positions[bisect_right(partition.positions, key[1]) :]:
            yield (key[0], position), partition.items[position]


def _place(partition_key: Any) -> tuple[int, Any]:
    return zlib.crc32(repr(partition_key).encode()), partition_key
