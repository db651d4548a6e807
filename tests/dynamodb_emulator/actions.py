"""What a request does to one item, alone or in a transaction: put, update, delete, check.

A request is read first, which finds whatever is wrong with it by itself. Then its outcome for the item as it is gets known;
and only then, when every action of a transaction has come that far, is it done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.database import Database, Write
from tests.dynamodb_emulator.errors import condition_failed, invalid
from tests.dynamodb_emulator.expressions.conditions import Condition
from tests.dynamodb_emulator.expressions.paths import Path
from tests.dynamodb_emulator.expressions.request_expressions import RequestExpressions
from tests.dynamodb_emulator.expressions.updates import Update
from tests.dynamodb_emulator.parameters import Request
from tests.dynamodb_emulator.partitions import ItemKey, StoredItem, stored
from tests.dynamodb_emulator.table import Table

Change = Callable[[Write], Write]
"""Makes of an item as it is (a write that changes nothing) what becomes of it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition of an action, if it has one."""

    condition: Condition | None
    values: Item
    shows_item: bool
    """Whether a failure says what stood in the way."""

    def check(self, old: StoredItem | None) -> None:
        """Refuse to act on this item, where the condition does not hold."""
        if self.condition is None or self.condition.holds({} if old is None else old.attributes, self.values):
            return
        raise condition_failed(**({"Item": orjson.Fragment(old.json)} if old is not None and self.shows_item else {}))


@dataclass(frozen=True, slots=True)
class Action:
    """One action, read."""

    table: Table
    key: ItemKey
    guard: Guard
    change: Change
    updated: tuple[Path, ...] = ()
    """What an update names."""

    def outcome(self) -> Write:
        """What comes of it, for the item as it is now."""
        old = self.table.items.get(self.key)
        self.guard.check(old)
        return self.change(Write(self.table, self.key, old, old, None))


def read_put(database: Database, request: Request) -> Action:
    """A Put."""
    guard = _guard(request, RequestExpressions(request))
    table, item = database.table(request["TableName"]), request["Item"]
    new = stored(item)
    key = table.schema.of_item(item)
    table.check(item)
    return Action(table, key, guard, lambda write: write._replace(new=new, attributes=item))


def read_delete(database: Database, request: Request) -> Action:
    """A Delete."""
    guard = _guard(request, RequestExpressions(request))
    table = database.table(request["TableName"])
    return Action(table, table.schema.of_key(request["Key"]), guard, lambda write: write._replace(new=None))


def read_check(database: Database, request: Request) -> Action:
    """A ConditionCheck."""
    guard = _guard(request, RequestExpressions(request))
    table = database.table(request["TableName"])
    return Action(table, table.schema.of_key(request["Key"]), guard, lambda write: write)


def read_update(database: Database, request: Request) -> Action:
    """An Update."""
    expressions = RequestExpressions(request)
    update = expressions.update()
    guard = _guard(request, expressions)
    table = database.table(request["TableName"])
    key = table.schema.of_key(request["Key"])
    for path in update.paths:
        if path.attribute in table.schema.names:
            raise invalid(
                "One or more parameter values were invalid: "
                f"Cannot update attribute {path.attribute}. This attribute is part of the key"
            )

    def change(write: Write) -> Write:
        return _updated(write, update, request["Key"], guard.values)

    return Action(table, key, guard, change, tuple(update.paths))


def _updated(write: Write, update: Update, key: Item, values: Item) -> Write:
    item = update.applied(key if write.old is None else write.old.attributes, values)
    new = stored(item)
    write.table.check(item)
    return write._replace(new=new, attributes=item)


def _guard(request: Request, expressions: RequestExpressions) -> Guard:
    condition = expressions.condition("ConditionExpression")
    expressions.finish()
    shows_item = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return Guard(None if condition is None else condition.meaning, expressions.values, shows_item)


def check_key_paths(key_names: tuple[str, ...], paths: tuple[Path, ...]) -> None:
    """Refuse a path that goes into a key, which has nothing inside."""
    for path in paths:
        if len(path.parts) > 1 and path.attribute in key_names:
            raise invalid(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
                f"Key: {path.attribute}"
            )
