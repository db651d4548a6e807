"""What a request may hold. Whatever it holds besides is refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.dynamodb_emulator.errors import invalid, unreadable

Request = dict[str, Any]

Expected = type | frozenset[str]
"""A parameter's type in JSON, or the words that it may be."""

NOTHING = frozenset({"NONE"})
"""For what can be asked for, but is not emulated."""


ParameterTypes = Mapping[str, Expected]


class Parameters:
    """The parameters of an operation, or of a part of one: those that it needs, and those that it may have."""

    def __init__(self, required: ParameterTypes, optional: ParameterTypes | None = None) -> None:
        self._required = tuple(required)
        self._expected = {**required, **(optional or {})}

    def check(self, request: Any) -> Request:
        """The request, when it is as it should be."""
        if type(request) is not dict:
            raise unreadable("Start of structure or map not found where expected")
        for name, value in request.items():
            expected = self._expected.get(name)
            if expected is None:
                raise invalid(f"the parameter {name} is unknown, or not emulated")
            if isinstance(expected, frozenset):
                if type(value) is not str or value not in expected:
                    raise invalid(
                        f"1 validation error detected: Value '{value}' at '{_member(name)}' failed to satisfy constraint: "
                        f"Member must satisfy enum value set: [{', '.join(sorted(expected))}]"
                    )
            elif type(value) is not expected:
                raise unreadable(f"{name} is no {expected.__name__}")
        for name in self._required:
            if name not in request:
                raise invalid(
                    f"1 validation error detected: Value null at '{_member(name)}' failed to satisfy constraint: "
                    "Member must not be null"
                )
        return request


def _member(name: str) -> str:
    return name[0].lower() + name[1:]
