"""Attribute values as DynamoDB's low-level clients take them."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]
"""Attribute name → typed value, as the low-level clients take and give them."""


def text(value: str) -> Item:
    """A string attribute."""
    return {"S": value}


def number(value: float) -> Item:
    """A number attribute; times keep their milliseconds."""
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
