"""Conditions, understood: each can say whether it holds for an item."""

from __future__ import annotations

import operator
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.dynamodb_emulator.attribute_values import ORDERED_TYPES, TYPES, Item, Value, rank, same, type_of
from tests.dynamodb_emulator.expressions.paths import Path
from tests.dynamodb_emulator.expressions.tokens import ExpressionRefused

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Operand(Protocol):
    """What can be compared."""

    def value(self, item: Item, values: Item) -> Value | None:
        """Its value for this item, where it has one; `values` are the request's."""


class Condition(Protocol):
    """What holds or does not."""

    def holds(self, item: Item, values: Item) -> bool:
        """Whether it does for this item; `values` are the request's."""

    def check(self, values: Item) -> None:
        """Refuse values of which it could never hold."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A value of the request, `:name`."""

    name: str

    def value(self, _item: Item, values: Item) -> Value | None:
        """See `Operand`."""
        return values[self.name]


@dataclass(frozen=True, slots=True)
class Size:
    """`size(path)`."""

    path: Path

    def value(self, item: Item, values: Item) -> Value | None:
        """See `Operand`: characters of a text, bytes of binary, elements of anything that has them."""
        found = self.path.value(item, values)
        if found is None or type_of(found) in {"N", "BOOL", "NULL"}:
            return None
        content = next(iter(found.values()))
        return {"N": str(len(b64decode(content) if "B" in found else content))}


# -- joined ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class And:
    """Both."""

    left: Condition
    right: Condition

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        return self.left.holds(item, values) and self.right.holds(item, values)

    def check(self, values: Item) -> None:
        """See `Condition`."""
        self.left.check(values)
        self.right.check(values)


@dataclass(frozen=True, slots=True)
class Or:
    """Either."""

    left: Condition
    right: Condition

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        return self.left.holds(item, values) or self.right.holds(item, values)

    def check(self, values: Item) -> None:
        """See `Condition`."""
        self.left.check(values)
        self.right.check(values)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    condition: Condition

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        return not self.condition.holds(item, values)

    def check(self, values: Item) -> None:
        """See `Condition`."""
        self.condition.check(values)


# -- comparisons -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left = right`, `<>`, `<`, `<=`, `>`, `>=`."""

    sign: str
    left: Operand
    right: Operand

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`. What is missing differs from everything."""
        left, right = self.left.value(item, values), self.right.value(item, values)
        if left is None or right is None:
            return self.sign == "<>"
        if self.sign in _COMPARE:
            return type_of(left) == type_of(right) and _ordered(self.sign, left, right)
        return same(left, right) == (self.sign == "=")

    def check(self, values: Item) -> None:
        """See `Condition`."""
        if self.sign in _COMPARE:
            for operand in (self.left, self.right):
                check_type(self.sign, operand, values, ORDERED_TYPES)


@dataclass(frozen=True, slots=True)
class Between:
    """`operand BETWEEN lower AND upper`, both included."""

    operand: Operand
    lower: Operand
    upper: Operand

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        at_least = Comparison(">=", self.operand, self.lower)
        return at_least.holds(item, values) and Comparison("<=", self.operand, self.upper).holds(item, values)

    def check(self, values: Item) -> None:
        """See `Condition`."""
        for operand in (self.operand, self.lower, self.upper):
            check_type("BETWEEN", operand, values, ORDERED_TYPES)
        lower, upper = (
            values[bound.name] if isinstance(bound, Placeholder) else None for bound in (self.lower, self.upper)
        )
        if lower is None or upper is None:
            return
        if type_of(lower) != type_of(upper):
            raise ExpressionRefused(
                "The BETWEEN operator requires same data type for lower and upper bounds; "
                f"lower bound operand: {lower}, upper bound operand: {upper}"
            )
        if rank(lower) > rank(upper):
            raise ExpressionRefused(
                "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
                f"lower bound operand: {lower}, upper bound operand: {upper}"
            )


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (a, b, …)`."""

    operand: Operand
    choices: tuple[Operand, ...]

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        return any(Comparison("=", self.operand, choice).holds(item, values) for choice in self.choices)

    def check(self, values: Item) -> None:
        """See `Condition`."""


# -- functions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttributeExists:
    """`attribute_exists(path)`."""

    path: Path

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        return self.path.value(item, values) is not None

    def check(self, values: Item) -> None:
        """See `Condition`."""


@dataclass(frozen=True, slots=True)
class AttributeType:
    """`attribute_type(path, :type)`."""

    path: Path
    type: Placeholder

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        found = self.path.value(item, values)
        return found is not None and type_of(found) == values[self.type.name]["S"]

    def check(self, values: Item) -> None:
        """See `Condition`."""
        check_type("attribute_type", self.type, values, {"S"})
        if (wanted := values[self.type.name]["S"]) not in TYPES:
            raise ExpressionRefused(f"Invalid attribute type name found; type: {wanted}, valid types: {sorted(TYPES)}")


@dataclass(frozen=True, slots=True)
class BeginsWith:
    """`begins_with(path, beginning)`."""

    path: Operand
    beginning: Operand

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        found, beginning = self.path.value(item, values), self.beginning.value(item, values)
        if found is None or beginning is None or type_of(found) != type_of(beginning):
            return False
        return type_of(found) in {"S", "B"} and bool(rank(found).startswith(rank(beginning)))

    def check(self, values: Item) -> None:
        """See `Condition`."""
        for operand in (self.path, self.beginning):
            check_type("begins_with", operand, values, {"S", "B"})


@dataclass(frozen=True, slots=True)
class Contains:
    """`contains(path, part)`: a part of a text or of binary, an element of a list or of a set."""

    path: Operand
    part: Operand

    def holds(self, item: Item, values: Item) -> bool:
        """See `Condition`."""
        found, part = self.path.value(item, values), self.part.value(item, values)
        if found is None or part is None:
            return False
        kind, content = next(iter(found.items()))
        if kind == "L":
            return any(same(element, part) for element in content)
        if kind in {"S", "B"}:
            return kind in part and rank(part) in rank(found)
        return kind == f"{type_of(part)}S" and part[type_of(part)] in content

    def check(self, values: Item) -> None:
        """See `Condition`."""


def check_type(function: str, operand: object, values: Item, allowed: frozenset[str] | set[str]) -> None:
    """Refuse a value of the request that is of none of these types."""
    if isinstance(operand, Placeholder) and type_of(values[operand.name]) not in allowed:
        raise ExpressionRefused(
            "Incorrect operand type for operator or function; "
            f"operator or function: {function}, operand type: {type_of(values[operand.name])}"
        )


def _ordered(sign: str, left: Value, right: Value) -> bool:
    return type_of(left) in ORDERED_TYPES and _COMPARE[sign](rank(left), rank(right))
