"""What HTTP answers look like wherever they are given: the handler and the Lambda functions answer alike."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stream_core.errors import EvenflowError, InternalError, InvalidRequest, MethodNotAllowed, NotFound, TooLarge

NEVER_CACHED = {"Cache-Control": "no-store"}
EVENT_ID_PATTERN = r"^(-1|[0-9]{1,15})(?:\.([0-9]{1,9}))?(\.end)?$"
"""Index, epoch and end of an event's id: "12" in the first epoch, "12.3" in the third; an ended response without any entry
has "-1.end"."""
CHUNK_ID_PATTERN = r"^(-1|[0-9]{1,15})(?:\.([0-9]{1,9}))?$"
"""The same of a chunk of OpenAI's API; "-1" before the first text."""

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


def error_headers(error: EvenflowError) -> dict[str, str]:
    """The headers that an error brings beside its body."""
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 426:
        headers["Upgrade"] = "websocket"
    return headers


def path_not_found(path: str) -> NotFound:
    """404 for a path that is nobody's."""
    return NotFound(f"there is no {path[:200]}", code="path_not_found")


def method_not_allowed(method: str, path: str) -> MethodNotAllowed:
    """405; the answer has `allow_header` too."""
    return MethodNotAllowed(f"{path[:200]} doesn't take {method[:16]}", code="method_not_allowed")


def allow_header(methods: Iterable[str]) -> dict[str, str]:
    """What a 405 says about the methods that there are."""
    return {"Allow": ", ".join(sorted(methods))}


def body_too_large() -> TooLarge:
    """413, before the body is looked at."""
    return TooLarge("the body is larger than a message may be; nothing was accepted", code="message_too_large")


def internal_error() -> InternalError:
    """500: the details are in the log."""
    return InternalError("something failed here; nothing is known to be lost, try again", code="internal_error")


def whole_number(name: str, text: str | None, default: int, lowest: int = 0) -> int:
    """A query parameter that is a whole number; `text` is None where it was left out.

    Raises:
        InvalidRequest: it isn't, or is below `lowest`.
    """
    if text is None:
        return default
    # Not whatever `int` takes: that is `1_0`, ` 7 ` and every script's digits too.
    value = int(text) if _WHOLE_NUMBER.fullmatch(text) else lowest - 1
    if value < lowest:
        raise InvalidRequest(
            f"{name} must be a whole number from {lowest} on, not {text[:32]!r}", code="invalid_field", param=name
        )
    return value
