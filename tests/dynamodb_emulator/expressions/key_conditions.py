"""Key conditions: one partition, and a range of its sort keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from tests.dynamodb_emulator.attribute_values import Item, Value, rank, type_of
from tests.dynamodb_emulator.errors import invalid
from tests.dynamodb_emulator.expressions.conditions import And, BeginsWith, Between, Comparison, Condition, Placeholder
from tests.dynamodb_emulator.expressions.paths import Path
from tests.dynamodb_emulator.key_schema import KeyAttribute, KeySchema
from tests.dynamodb_emulator.partitions import Position

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INVALID = "Invalid KeyConditionExpression: "

_Slice = Callable[[list[Position]], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What a query looks at."""

    partition: Any
    slice: _Slice
    """Of positions in order: where the range begins, and where it ends."""

    def admits(self, position: Position) -> bool:
        """Whether a position is in the range."""
        return self.slice([position]) == (0, 1)


@dataclass(frozen=True, slots=True)
class _KeyTest:
    """A condition on one key attribute."""

    attribute: str
    sign: str
    values: tuple[Value, ...]


def key_range(condition: Condition, values: Item, schema: KeySchema) -> KeyRange:
    """What a KeyConditionExpression asks for, of a table or an index with this schema."""
    tests: dict[str, _KeyTest] = {}
    for test in _tests(condition, values):
        if test.attribute in tests:
            raise invalid(_INVALID + "KeyConditionExpressions must only contain one condition per key")
        tests[test.attribute] = test
    partition = tests.pop(schema.partition.name, None)
    if partition is None:
        raise invalid(f"Query condition missed key schema element: {schema.partition.name}")
    _check(partition, schema.partition)
    if partition.sign != "=":
        raise invalid("Query key condition not supported")
    sort = tests.pop(schema.sort.name, None) if schema.sort is not None else None
    if tests:
        raise invalid("Query key condition not supported")
    if sort is None or schema.sort is None:
        return KeyRange(rank(partition.values[0]), lambda positions: (0, len(positions)))
    _check(sort, schema.sort)
    return KeyRange(rank(partition.values[0]), _slice(sort.sign, [rank(value) for value in sort.values]))


def _tests(condition: Condition, values: Item) -> Iterator[_KeyTest]:
    match condition:
        case And(left, right):
            yield from _tests(left, values)
            yield from _tests(right, values)
        case Comparison(sign, Path() as path, Placeholder(name)) if sign in _MIRRORED:
            yield _KeyTest(_attribute(path), sign, (values[name],))
        case Comparison(sign, Placeholder(name), Path() as path) if sign in _MIRRORED:
            yield _KeyTest(_attribute(path), _MIRRORED[sign], (values[name],))
        case Between(Path() as path, Placeholder(lower), Placeholder(upper)):
            yield _KeyTest(_attribute(path), "BETWEEN", (values[lower], values[upper]))
        case BeginsWith(Path() as path, Placeholder(name)):
            yield _KeyTest(_attribute(path), "begins_with", (values[name],))
        case _:
            raise invalid(_INVALID + "it compares key attributes with values, by =, <, <=, >, >=, BETWEEN, begins_with")


def _attribute(path: Path) -> str:
    if len(path.parts) > 1:
        raise invalid(_INVALID + "KeyConditionExpressions cannot have conditions on nested attributes")
    return path.attribute


def _check(test: _KeyTest, attribute: KeyAttribute) -> None:
    for value in test.values:
        if type_of(value) != attribute.type:
            raise invalid(
                "One or more parameter values were invalid: Condition parameter type does not match schema type"
            )
        attribute.check(value)


def _slice(sign: str, bounds: list[Any]) -> _Slice:
    lower, upper = bounds[0], bounds[-1]

    def first_not_below(positions: list[Position]) -> int:
        return bisect_left(positions, lower, key=itemgetter(0))

    def first_above(positions: list[Position]) -> int:
        return bisect_right(positions, upper, key=itemgetter(0))

    def first_without_beginning(positions: list[Position]) -> int:
        return bisect_right(positions, upper, key=lambda position: position[0][: len(upper)])

    match sign:
        case "<":
            return lambda positions: (0, first_not_below(positions))
        case "<=":
            return lambda positions: (0, first_above(positions))
        case ">":
            return lambda positions: (first_above(positions), len(positions))
        case ">=":
            return lambda positions: (first_not_below(positions), len(positions))
        case "begins_with":
            return lambda positions: (first_not_below(positions), first_without_beginning(positions))
        case _:  # =, BETWEEN
            return lambda positions: (first_not_below(positions), first_above(positions))
