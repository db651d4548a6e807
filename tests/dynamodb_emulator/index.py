"""A global secondary index: the same items under another key, some time later."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from tests.dynamodb_emulator.attribute_values import Item, type_of
from tests.dynamodb_emulator.errors import invalid
from tests.dynamodb_emulator.key_schema import KeySchema
from tests.dynamodb_emulator.partitions import ItemKey, Partitions, StoredItem, stored


@dataclass(frozen=True, slots=True)
class Projection:
    """Which attributes an index has besides the keys."""

    type: str
    """ALL, KEYS_ONLY or INCLUDE."""
    others: frozenset[str]
    """Those that it includes."""


class _Change(NamedTuple):
    """What the index learns of a write: the item's key in the table; its key and content here, unless it is not here."""

    written_at: float
    table_key: ItemKey
    key: ItemKey | None
    item: StoredItem | None


class Index:
    """One index.

    Args:
        table_schema: the key of the table that it is of.
    """

    def __init__(self, name: str, schema: KeySchema, table_schema: KeySchema, projection: Projection) -> None:
        self.name = name
        self.schema = schema
        self.projection = projection
        self.items = Partitions()
        self.key_names = tuple(dict.fromkeys((*table_schema.names, *schema.names)))
        """What a page of a query or scan is continued with."""
        self._table_schema = table_schema
        self._keys: dict[ItemKey, ItemKey] = {}
        self._pending: deque[_Change] = deque()

    def has(self, attribute: str) -> bool:
        """Whether this attribute of an item is in the index too."""
        return self.projection.type == "ALL" or attribute in self.key_names or attribute in self.projection.others

    def check(self, item: Item) -> None:
        """Refuse an item that could not stand in the index."""
        for attribute in self.schema.attributes:
            value = item.get(attribute.name)
            if value is None:
                continue
            if attribute.type not in value:
                raise invalid(
                    f"One or more parameter values were invalid: Type mismatch for Index Key {attribute.name} "
                    f"Expected: {attribute.type} Actual: {type_of(value)} IndexName: {self.name}"
                )
            attribute.check(value)

    def key_of(self, item: Item) -> ItemKey:
        """Where an item stands here: those with one key are ordered by their keys in the table."""
        partition, position = self.schema.key_of(item)
        table_partition, table_position = self._table_schema.key_of(item)
        return partition, (*position, table_partition, *table_position)

    def note(self, now: float, table_key: ItemKey, item: Item | None, as_stored: StoredItem | None) -> None:
        """Remember a write of the table, until `catch_up`."""
        if item is None or as_stored is None or not all(name in item for name in self.schema.names):
            self._pending.append(_Change(now, table_key, None, None))
            return
        if self.projection.type != "ALL":
            as_stored = stored({name: value for name, value in item.items() if self.has(name)})
        self._pending.append(_Change(now, table_key, self.key_of(item), as_stored))

    def catch_up(self, until: float) -> None:
        """Do what was written at or before this time."""
        while self._pending and self._pending[0].written_at <= until:
            self._do(self._pending.popleft())

    def _do(self, change: _Change) -> None:
        old_key = self._keys.pop(change.table_key, None)
        if old_key is not None and old_key != change.key:
            self.items.remove(old_key)
        if change.key is not None and change.item is not None:
            self._keys[change.table_key] = change.key
            self.items.put(change.key, change.item)
