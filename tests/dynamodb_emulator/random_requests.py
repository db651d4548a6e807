"""Requests at random, for a comparison with moto: of small ranges, so that they meet each other's items.

What moto gets wrong is not asked for: `size` and list elements of what is not there, comparisons between types, UPDATED_NEW of
an item that is new, duplicates in a batch, an update in a transaction that fails by itself. Tests of their own hold that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.dynamodb_emulator.attribute_values import Item, Value

TABLE = "random"
INDEX = "by-group"
CREATE_TABLE = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
        {"AttributeName": "grp", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": INDEX,
            "KeySchema": [{"AttributeName": "grp", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
}

Request = dict[str, Any]

_TEXTS = ("", "a", "ab", "b", "é", "日本")
_NUMBERS = ("0", "1", "2", "-3", "1.5", "10")
_SORT_KEYS = ("1", "10", "11", "2", "a", "b")
_COLOURS = ("red", "green", "blue")
_ALIASES = {"#y": "y z", "#l": "list", "#z": "size"}
_TYPES = {"n": "N", "s": "S", "m.x": "S", "m.#y": "N", "#l": "L", "#z": "S", "flag": "BOOL", "colours": "SS"}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Expression:
    """An expression being made, with the names and values that it uses."""

    def __init__(self, dice: random.Random) -> None:
        self.names: dict[str, str] = {}
        self.values: Item = {}
        self._dice = dice

    def path(self) -> str:
        """A path; its aliases are noted."""
        path = self._dice.choice(tuple(_TYPES))
        self.names |= {alias: name for alias, name in _ALIASES.items() if alias in path}
        return path

    def value(self, value: Value) -> str:
        """A placeholder for a value."""
        name = f":v{len(self.values)}"
        self.values[name] = value
        return name

    def parameters(self) -> Request:
        """The parameters of a request that say what it uses."""
        names = {"ExpressionAttributeNames": self.names} if self.names else {}
        return {**names, **({"ExpressionAttributeValues": self.values} if self.values else {})}


class RandomRequests:
    """Makes them.

    Args:
        seed: the same makes the same requests.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._kinds: list[tuple[Callable[[], tuple[str, Request]], int]] = [
            (self.put, 6),
            (self.update, 8),
            (self.delete, 1),
            (self.get, 2),
            (self.query, 4),
            (self.query_index, 2),
            (self.scan, 1),
            (self.batch, 1),
            (self.transaction, 3),
        ]

    def next(self) -> tuple[str, Request]:
        """An operation and its request."""
        make = self._dice.choices([kind for kind, _ in self._kinds], [weight for _, weight in self._kinds])[0]
        return make()

    # -- operations ----------------------------------------------------------------------------------------------

    def put(self) -> tuple[str, Request]:
        """PutItem, with a condition at times."""
        returned = {"ReturnValues": self._dice.choice(("NONE", "ALL_OLD"))}
        return "PutItem", {"TableName": TABLE, "Item": self._item(), **self._maybe_condition(), **returned}

    def delete(self) -> tuple[str, Request]:
        """DeleteItem."""
        returned = {"ReturnValues": self._dice.choice(("NONE", "ALL_OLD"))}
        return "DeleteItem", {"TableName": TABLE, "Key": self._key(), **self._maybe_condition(), **returned}

    def update(self) -> tuple[str, Request]:
        """UpdateItem."""
        returned = {"ReturnValues": self._dice.choice(("NONE", "ALL_OLD", "ALL_NEW"))}
        return "UpdateItem", {**self._update_of_item(), **returned}

    def get(self) -> tuple[str, Request]:
        """GetItem, of some attributes at times."""
        if self._dice.random() < 0.5:
            return "GetItem", {"TableName": TABLE, "Key": self._key()}
        wanted = Expression(self._dice)
        paths = {wanted.path() for _ in range(2)}
        projection = {"ProjectionExpression": ", ".join(sorted(paths)), **wanted.parameters()}
        return "GetItem", {"TableName": TABLE, "Key": self._key(), **projection}

    def query(self) -> tuple[str, Request]:
        """Query of the table."""
        return self._query("pk", self._partition(), {})

    def query_index(self) -> tuple[str, Request]:
        """Query of the index."""
        return self._query("grp", self._text("a", "b"), {"IndexName": INDEX})

    def scan(self) -> tuple[str, Request]:
        """Scan, to the end."""
        expression = Expression(self._dice)
        return "Scan", {"TableName": TABLE, "FilterExpression": self._condition(expression), **expression.parameters()}

    def batch(self) -> tuple[str, Request]:
        """BatchWriteItem."""
        deleted, *put = self._dice.sample(_SORT_KEYS, 3)
        writes = [{"PutRequest": {"Item": {**self._item(), "sk": {"S": sort_key}}}} for sort_key in put]
        key = {"pk": self._text("p", "q"), "sk": {"S": deleted}}
        return "BatchWriteItem", {"RequestItems": {TABLE: [*writes, {"DeleteRequest": {"Key": key}}]}}

    def transaction(self) -> tuple[str, Request]:
        """TransactWriteItems."""
        kinds = [self._dice.choice(("Put", "Update", "Delete", "ConditionCheck")) for _ in range(2)]
        return "TransactWriteItems", {"TransactItems": [{kind: self._action(kind)} for kind in kinds]}

    # -- parts ---------------------------------------------------------------------------------------------------

    def _action(self, kind: str) -> Request:
        if kind == "Put":
            return {"TableName": TABLE, "Item": self._item(), **self._maybe_condition()}
        if kind == "Update":
            expression = Expression(self._dice)
            update = f"SET s = {expression.value(self._text(*_TEXTS))} REMOVE n"
            return {"TableName": TABLE, "Key": self._key(), "UpdateExpression": update, **expression.parameters()}
        condition = self._condition_parameters() if kind == "ConditionCheck" else self._maybe_condition()
        return {"TableName": TABLE, "Key": self._key(), **condition}

    def _update_of_item(self) -> Request:
        expression = Expression(self._dice)
        update = self._update(expression)
        condition = {"ConditionExpression": self._condition(expression)} if self._dice.random() < 0.3 else {}
        return {
            "TableName": TABLE,
            "Key": self._key(),
            "UpdateExpression": update,
            **condition,
            **expression.parameters(),
        }

    def _update(self, expression: Expression) -> str:
        path = expression.path()
        value = expression.value(self._value(_TYPES[path]))
        match _TYPES[path], self._dice.randrange(3):
            case "N", 0:
                return f"SET {path} = if_not_exists({path}, {value}) + {value}"
            case "L", 0:
                return f"SET {path} = list_append(if_not_exists({path}, {value}), {value})"
            case "N" | "SS", 1:
                return f"ADD {path} {value}"
            case "SS", _:
                return f"DELETE {path} {value}"
            case _, 1:
                expression.values.clear()
                return f"REMOVE {path}"
            case _:
                return f"SET {path} = {value}"

    def _query(self, attribute: str, value: Value, parameters: Request) -> tuple[str, Request]:
        expression = Expression(self._dice)
        condition = f"{attribute} = {expression.value(value)}{self._sort_condition(expression)}"
        found = {"FilterExpression": self._condition(expression)} if self._dice.random() < 0.3 else {}
        forward = {"ScanIndexForward": self._dice.random() < 0.5}
        request = {"TableName": TABLE, "KeyConditionExpression": condition, **found, **forward, **parameters}
        return "Query", {**request, **expression.parameters()}

    def _sort_condition(self, expression: Expression) -> str:
        lower, upper = ({"S": text} for text in sorted(self._dice.choices(_SORT_KEYS, k=2)))
        match self._dice.randrange(4):
            case 0:
                return ""
            case 1:
                return f" AND sk BETWEEN {expression.value(lower)} AND {expression.value(upper)}"
            case 2:
                return f" AND begins_with(sk, {expression.value(lower)})"
            case _:
                return f" AND sk {self._dice.choice(('=', '<', '<=', '>', '>='))} {expression.value(lower)}"

    def _maybe_condition(self) -> Request:
        return self._condition_parameters() if self._dice.random() < 0.5 else {}

    def _condition_parameters(self) -> Request:
        expression = Expression(self._dice)
        return {"ConditionExpression": self._condition(expression), **expression.parameters()}

    def _condition(self, expression: Expression, depth: int = 0) -> str:
        if depth < 2 and self._dice.random() < 0.4:
            left, right = (self._condition(expression, depth + 1) for _ in range(2))
            return self._dice.choice(
                (f"{left} AND {right}", f"{left} OR ({right} OR {left})", f"NOT ({left} AND {right})")
            )
        return self._test(expression)

    def _test(self, expression: Expression) -> str:
        path = expression.path()
        match _TYPES[path], self._dice.randrange(4):
            case _, 0:
                return f"{self._dice.choice(('attribute_exists', 'attribute_not_exists'))}({path})"
            case "S", 1:
                return f"begins_with({path}, {expression.value(self._text(*_TEXTS[1:]))})"
            case "S" | "SS" | "L", 2:
                return f"contains({path}, {expression.value(self._text('a', 'b', 'red'))})"
            case "S" | "N" as kind, _:
                return self._comparison(expression, path, kind)
            case kind, _:
                return f"{path} {self._dice.choice(('=', '<>'))} {expression.value(self._value(kind))}"

    def _comparison(self, expression: Expression, path: str, kind: str) -> str:
        value, other = (expression.value(self._value(kind)) for _ in range(2))
        form = self._dice.choice(
            (f"{path} IN ({value}, {other})", *(f"{path} {sign} {value}" for sign in _COMPARISONS))
        )
        if other not in form:
            del expression.values[other]
        return form

    def _item(self) -> Item:
        others: Item = {
            "m": {"M": {"x": self._value("S"), "y z": self._value("N")}},
            "grp": self._text("a", "b"),
            **{_ALIASES.get(name, name): self._value(kind) for name, kind in _TYPES.items() if "." not in name},
        }
        return self._key() | {name: value for name, value in others.items() if self._dice.random() < 0.5}

    def _key(self) -> Item:
        return {"pk": self._partition(), "sk": self._text(*_SORT_KEYS)}

    def _partition(self) -> Value:
        return self._text("p", "q")

    def _text(self, *texts: str) -> Value:
        return {"S": self._dice.choice(texts)}

    def _value(self, kind: str) -> Value:
        match kind:
            case "S":
                return self._text(*_TEXTS)
            case "N":
                return {"N": self._dice.choice(_NUMBERS)}
            case "BOOL":
                return {"BOOL": self._dice.random() < 0.5}
            case "SS":
                return {"SS": self._dice.sample(_COLOURS, 2)}
            case _:
                return {"L": [self._value(self._dice.choice(("S", "N"))) for _ in range(self._dice.randrange(1, 3))]}
