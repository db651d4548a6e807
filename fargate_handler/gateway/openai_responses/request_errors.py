"""How a request of the Responses API is refused."""

from __future__ import annotations

from evenflow.stream_core.base.errors import InvalidRequest


def wrong(what: str, param: str) -> InvalidRequest:
    """The error for a field that is wrong."""
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param[:100])


def unsupported(what: str, param: str) -> InvalidRequest:
    """The error for what would change the answer, and can't be done here."""
    return InvalidRequest(
        f"{what}; nothing was generated", code="unsupported_value", param=param[:100]
    )
