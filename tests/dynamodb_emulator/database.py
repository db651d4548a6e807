"""All tables, and how they are written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.errors import RequestRefused
from tests.dynamodb_emulator.faults import FaultInjector
from tests.dynamodb_emulator.index import Index
from tests.dynamodb_emulator.partitions import ItemKey, StoredItem
from tests.dynamodb_emulator.recent_tokens import RecentTokens
from tests.dynamodb_emulator.table import Table


class Write(NamedTuple):
    """What a request makes of one item, not yet done: `new` is None where it goes, and `old` itself where nothing changes."""

    table: Table
    key: ItemKey
    old: StoredItem | None
    new: StoredItem | None
    attributes: Item | None
    """Those of `new`."""


class Database:
    """Everything that is kept.

    Args:
        clock: seconds from any beginning, for faults and tokens.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tables: dict[str, Table] = {}
        self.faults = FaultInjector(clock)
        self.tokens = RecentTokens(clock)
        self._clock = clock

    def table(self, name: str) -> Table:
        """One table."""
        table = self.tables.get(name)
        if table is None:
            raise RequestRefused("ResourceNotFoundException", "Requested resource not found")
        return table

    def do(self, write: Write) -> None:
        """Do what a request wants."""
        if write.new is write.old:
            return
        if write.new is None:
            write.table.items.remove(write.key)
        else:
            write.table.items.put(write.key, write.new)
        if not write.table.indexes:
            return
        now, visible_until = self._clock(), self.faults.visible_until
        for index in write.table.indexes.values():
            index.note(now, write.key, write.attributes, write.new)
            index.catch_up(visible_until)

    def caught_up(self, index: Index) -> Index:
        """An index, as it can be seen now."""
        index.catch_up(self.faults.visible_until)
        return index
