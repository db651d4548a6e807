"""What every HTTP answer keeps to: the shape of errors, headers, numbers in queries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import with_default_schema

from stream_core.protocol.errors import (
    EvenflowError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    TooLarge,
)

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "model_refusal_error",
    "rate_limit_error",
    "internal_error",
    "upstream_error",
    "overloaded_error",
]


def _without_default(schema: dict[str, Any]) -> None:
    # It may be left out, and it may be null, which means something else.
    del schema["default"]


class ErrorObject(BaseModel):
    """What happened (`message`), in words that a program can decide by (`type`, `code`), and where there is one the field
    at fault (`param`), the time after which to try again, the HTTP status where the model's server said it, and what was
    expected instead.
    """

    type: ErrorType
    code: str
    message: str
    param: str | None = None
    retry_after_ms: int | None = None
    status: int | None = None
    expected: Annotated[str | None, Field(json_schema_extra=_without_default)] = ""
    response_id: str | None = None


class ErrorBody(BaseModel):
    """The body of every HTTP answer that refuses."""

    error: ErrorObject


class _DescribedAs:
    """A value that is a plain object here, and in documents the model that describes it."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Wrapped, so that it is a reference to the model's schema and no copy of it.
        return handler(with_default_schema(self._model.__pydantic_core_schema__))


ErrorFields = Annotated[dict[str, Any], _DescribedAs(ErrorObject)]
"""`EvenflowError.to_object()`."""


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
