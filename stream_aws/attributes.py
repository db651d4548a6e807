"""Attribute values for DynamoDB's low-level clients."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]
"""Typed values by attribute name, as the low-level clients use them."""


def text(value: str) -> Item:
    """A string attribute."""
    return {"S": value}


def number(value: float) -> Item:
    """A number attribute. Times are kept to the millisecond."""
    return {"N": repr(round(value, 3)) if isinstance(value, float) else str(value)}


def number_set(*values: int) -> Item:
    """A set of numbers."""
    return {"NS": [str(value) for value in values]}


def seconds(value: float) -> Item:
    """A TTL attribute: whole seconds."""
    return {"N": str(int(value))}


def flag(value: bool) -> Item:
    """A Boolean attribute."""
    return {"BOOL": value}
