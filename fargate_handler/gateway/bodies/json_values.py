"""Values that go to the model unchanged: JSON that can be written. Python reads more than that."""

from __future__ import annotations

import math

import orjson

from evenflow.stream_core.base.errors import InvalidRequest


def written(value: object, where: str) -> str:
    """A value as JSON.

    Raises:
        InvalidRequest: as for `check_json`.
    """
    check_json(value, where)
    return orjson.dumps(value).decode()


def check_json(value: object, where: str) -> None:
    """Check that a value can be written as JSON.

    Args:
        where: its path in the request.

    Raises:
        InvalidRequest: it has a number that JSON can't have, or is nested too deep.
    """
    try:
        orjson.dumps(value)
    except TypeError:
        writable = False
    else:
        writable = _is_finite(value)
    if not writable:
        raise InvalidRequest(
            f"{where[:100]} has a number that JSON can't have, or is nested too deep; nothing was "
            "generated",
            code="invalid_field",
            param=where[:100],
        )


def _is_finite(value: object) -> bool:
    # It would be written as null.
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, inner))
