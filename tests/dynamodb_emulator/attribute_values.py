"""Attribute values as they travel, `{"S": "text"}`: checked, measured, compared."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from tests.dynamodb_emulator.errors import invalid, unreadable

Value = dict[str, Any]
"""One attribute value: its type, and what it holds."""

Item = dict[str, Value]
"""Attribute name → value."""

ORDERED_TYPES = frozenset({"S", "N", "B"})
SET_TYPES = frozenset({"SS", "NS", "BS"})
TYPES = ORDERED_TYPES | SET_TYPES | {"BOOL", "NULL", "L", "M"}

_DEEPEST = 32
_MOST_DIGITS = 38
_NORMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,37}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EXACT = Context(prec=400)


def item_size(item: Any) -> int:
    """Bytes of an item as DynamoDB counts them. Its values are checked, and its numbers brought to their normal form."""
    if type(item) is not dict:
        raise unreadable("Start of structure or map not found where expected")
    return sum(
        (len(name) if name.isascii() else len(name.encode())) + value_size(value) for name, value in item.items()
    )


def value_size(value: Any, depth: int = 0) -> int:
    """The same of one value."""
    if type(value) is not dict or len(value) != 1:
        raise invalid(
            "Supplied AttributeValue is empty or has more than one datatypes set, "
            "must contain exactly one of the supported datatypes"
        )
    kind, content = next(iter(value.items()))
    if kind == "S" and type(content) is str:
        return len(content) if content.isascii() else len(content.encode())
    expected, size = _SIZES.get(kind, (None, None))
    if size is None:
        raise invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
    if type(content) is not expected:
        raise unreadable(f"{type(content).__name__} can not be converted to an attribute of type {kind}")
    if depth > _DEEPEST:
        raise invalid("Nesting Levels have exceeded supported limits: Attributes can be nested up to 32 levels deep")
    return size(value, depth)


def normal_number(text: Any) -> str:
    """A number as DynamoDB gives it back: no exponent, no needless zero."""
    if type(text) is not str:
        raise unreadable("a number travels as a string")
    if _NORMAL_INTEGER.fullmatch(text):
        return text
    if not _NUMBER.fullmatch(text):
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    number = Decimal(text)
    if number == 0:
        return "0"
    if number.adjusted() > 125:
        raise invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
    if number.adjusted() < -130:
        raise invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
    if len("".join(map(str, number.as_tuple().digits)).strip("0")) > _MOST_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return format(number.normalize(_EXACT), "f")


def added(left: Value, right: Value, sign: int = 1) -> Value:
    """The sum of two numbers, or their difference."""
    total = _EXACT.add(Decimal(left["N"]), sign * Decimal(right["N"]))
    return {"N": normal_number(str(total))}


def type_of(value: Value) -> str:
    """Its type: `S`, `N` …"""
    return next(iter(value))


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal; the order in a set is none."""
    if left == right:
        return True
    kind = type_of(left)
    if kind != type_of(right):
        return False
    mine, theirs = left[kind], right[kind]
    if kind in SET_TYPES:
        return set(mine) == set(theirs)
    if kind == "L":
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return kind == "M" and mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in mine)


def rank(value: Value) -> Any:
    """What orders values of one of the `ORDERED_TYPES`: text by its code points, numbers by size, binary by its bytes."""
    kind, content = next(iter(value.items()))
    if kind == "S":
        return content
    return Decimal(content) if kind == "N" else b64decode(content)


# -- sizes -------------------------------------------------------------------------------------------------------


def _number_size(value: Value, _depth: int) -> int:
    value["N"] = number = normal_number(value["N"])
    return _size_of_number(number)


def _size_of_number(number: str) -> int:
    digits = len(number.lstrip("-").replace(".", "").strip("0"))
    return (digits + 1) // 2 + 1 + number.startswith("-")


def _binary(text: Any) -> bytes:
    try:
        content = b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise unreadable("Invalid Base64") from None
    if b64encode(content).decode() != text:  # two spellings of the same bytes would be two values here
        raise unreadable("Invalid last non-pad Base64 character")
    return content


def _binary_size(value: Value, _depth: int) -> int:
    return len(_binary(value["B"]))


def _flag_size(_value: Value, _depth: int) -> int:
    return 1


def _null_size(value: Value, _depth: int) -> int:
    if not value["NULL"]:
        raise invalid(
            "One or more parameter values were invalid: Null attribute value types must have the value of true"
        )
    return 1


def _list_size(value: Value, depth: int) -> int:
    return 3 + sum(1 + value_size(element, depth + 1) for element in value["L"])


def _map_size(value: Value, depth: int) -> int:
    return 3 + sum(1 + len(name.encode()) + value_size(element, depth + 1) for name, element in value["M"].items())


def _set_size(value: Value, _depth: int) -> int:
    kind, elements = next(iter(value.items()))
    if not elements:
        raise invalid("One or more parameter values were invalid: a set may not be empty")
    if kind == "NS":
        value[kind] = elements = [normal_number(element) for element in elements]
        size = sum(map(_size_of_number, elements))
    elif kind == "BS":
        size = sum(len(_binary(element)) for element in elements)
    elif all(type(element) is str for element in elements):
        size = sum(len(element.encode()) for element in elements)
    else:
        raise unreadable("a set of strings holds strings")
    if len(set(elements)) != len(elements):
        raise invalid(f"One or more parameter values were invalid: Input collection {elements} contains duplicates.")
    return size


_SIZES: dict[str, tuple[type, Callable[[Value, int], int]]] = {
    "S": (str, _flag_size),  # only the check of its type is left to do
    "N": (str, _number_size),
    "B": (str, _binary_size),
    "BOOL": (bool, _flag_size),
    "NULL": (bool, _null_size),
    "L": (list, _list_size),
    "M": (dict, _map_size),
    "SS": (list, _set_size),
    "NS": (list, _set_size),
    "BS": (list, _set_size),
}
