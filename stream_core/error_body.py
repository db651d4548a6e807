"""The error shape as a model, for the documents that describe it. The error itself is `stream_core.errors`'."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import with_default_schema

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
