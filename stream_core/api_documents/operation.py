"""What an HTTP call is made of, as far as clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stream_core.api_documents.component_schemas import Model
from stream_core.protocol.routes import Route

Codes = Mapping[int, tuple[str, ...]]
"""Status → the error codes that come with it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What stands in the path, the query or a header; `schema` is a JSON schema."""

    name: str
    where: Literal["path", "query", "header"]
    meaning: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that refuses nothing.

    Args:
        headers: names of `openapi.HEADERS`.
        events: of an event stream, by the type that each has.
        chunks: of the event stream that is given to who asks for one, whose events have no type and end with `[DONE]`.
    """

    status: int
    meaning: str
    body: Model | None = None
    content_type: str = "application/json"
    headers: tuple[str, ...] = ()
    events: tuple[Model, ...] = ()
    chunks: tuple[Model, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """What a route takes and answers.

    Args:
        refusals: what it may be refused with, in the contract's error shape.
        body: of the request.
        security: names of `openapi.SECURITY_SCHEMES`, of which one is needed; "" stands for none.
    """

    route: Route
    name: str
    summary: str
    answers: tuple[Answer, ...]
    refusals: Codes
    parameters: tuple[Parameter, ...] = ()
    body: Model | None = None
    body_required: bool = True
    security: tuple[str, ...] = ("session",)


def refusals(*parts: Codes) -> dict[int, tuple[str, ...]]:
    """All of these together."""
    merged: dict[int, tuple[str, ...]] = {}
    for part in parts:
        for status, codes in part.items():
            merged[status] = tuple(dict.fromkeys((*merged.get(status, ()), *codes)))
    return dict(sorted(merged.items()))
