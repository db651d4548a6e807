"""The shared parts of HTTP answers: the shape of errors, headers, and numbers in queries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import with_default_schema

from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    is_worth_repeating,
)
from evenflow.stream_core.http.routes import protocol_at

TEXT, LIST = "<text>", "<list>"
"""The tags of the two in a union with the discriminator `TEXT_OR_LIST`."""


def _kind(value: object) -> str | None:
    # Without this tag pydantic reports a wrong list as "not a string".
    return TEXT if isinstance(value, str) else LIST if isinstance(value, list) else None


TEXT_OR_LIST = Discriminator(
    _kind,
    custom_error_type="text_or_list",
    custom_error_message="Input should be a string or a list",
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
    # The field may be missing, and it may be null, which means something else.
    del schema["default"]


class ErrorObject(BaseModel):
    """An error. `message` is for people, `type` and `code` are for programs.

    Where they apply: `param` is the wrong field, `retry_after_ms` is when to try again, `status` is
    the HTTP status of the model's server, `expected` is the value that was expected instead, and
    `limit` is the bound, and its owner.
    """

    type: ErrorType
    code: str
    message: str
    param: str | None = None
    retry_after_ms: int | None = None
    status: int | None = None
    expected: Annotated[str | None, Field(json_schema_extra=_without_default)] = ""
    response_id: str | None = None
    limit: str | None = None


class ErrorBody(BaseModel):
    """The body of every HTTP answer that is an error."""

    error: ErrorObject


class _DescribedAs:
    """A plain object that documents describe by a model."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # Wrapped, so that documents refer to the model's schema instead of copying it.
        return handler(with_default_schema(self._model.__pydantic_core_schema__))


ErrorFields = Annotated[dict[str, Any], _DescribedAs(ErrorObject)]
"""The object that `EvenflowError.to_object()` returns."""


NEVER_CACHED = {"Cache-Control": "no-store"}
EVENT_ID_PATTERN = r"^(-1|[0-9]{1,15})(?:\.([0-9]{1,9}))?(\.end)?$"
"""An event's id: index, epoch and end. "12" in the first epoch, "12.3" in the third. The end of a
response without entries is "-1.end"."""
CHUNK_ID_PATTERN = r"^(-1|[0-9]{1,15})(?:\.([0-9]{1,9}))?$"
"""The id of a chunk of OpenAI's API: index and epoch. "-1" before the first text."""

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


# Statuses with `Retry-After`, and its seconds if the time is unknown.
_BUSY, _USUAL_RETRY_AFTER = (429, 503), "2"


def kept_for(seconds: float) -> dict[str, str]:
    """The headers of an answer that shared caches may keep, for requests with the same token.

    Caches do not check that the token is still valid. So `seconds` should not be more than a
    heartbeat.
    """
    return {"Cache-Control": f"public, max-age={int(seconds)}", "Vary": "Authorization"}


def error_headers(error: EvenflowError) -> dict[str, str]:
    """The headers that belong to an error."""
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif error.status in _BUSY and is_worth_repeating(error):
        headers["Retry-After"] = _USUAL_RETRY_AFTER
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.code == "unsupported_encoding":
        headers["Accept-Encoding"] = error.extra["expected"]
    if error.status == 426:
        headers |= {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    return headers


def path_not_found(path: str) -> NotFound:
    """The error for an unknown path, or for one of a protocol's paths that is not served."""
    advice = protocol_at(path).advice_for(path)
    message = f"there is no {path[:200]}" if advice is None else f"{advice}. Nothing was generated"
    return NotFound(message, code="path_not_found")


def method_not_allowed(method: str, path: str) -> MethodNotAllowed:
    """The error for a wrong method. Its answer also needs `allow_header`."""
    return MethodNotAllowed(f"{path[:200]} doesn't take {method[:16]}", code="method_not_allowed")


def allow_header(methods: Iterable[str]) -> dict[str, str]:
    """The header of a 405 that lists the allowed methods."""
    return {"Allow": ", ".join(sorted(methods))}


def body_too_large() -> TooLarge:
    """The error for a body that is too large. It is raised before the body is read."""
    return TooLarge(
        "the body is larger than a message may be; nothing was accepted", code="message_too_large"
    )


def internal_error() -> InternalError:
    """The error for a fault of ours. The details are in the operator's log."""
    return InternalError(
        "something failed here; nothing is known to be lost, try again", code="internal_error"
    )


def whole_number(name: str, text: str | None, default: int, lowest: int = 0) -> int:
    """Read a query parameter that is a whole number. `text` is None where it is missing.

    Raises:
        InvalidRequest: it isn't a whole number, or is below `lowest`.
    """
    if text is None:
        return default
    # Stricter than `int`, which also accepts `1_0`, ` 7 ` and the digits of every script.
    value = int(text) if _WHOLE_NUMBER.fullmatch(text) else lowest - 1
    if value < lowest:
        raise InvalidRequest(
            f"{name} must be a whole number from {lowest} on, not {text[:32]!r}",
            code="invalid_field",
            param=name,
        )
    return value
