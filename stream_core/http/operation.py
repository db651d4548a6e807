"""The parts of an HTTP call as clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.stream_core.http.component_schemas import Model
from evenflow.stream_core.http.http_contract import CHUNK_ID_PATTERN, ErrorBody
from evenflow.stream_core.http.routes import Route

Codes = Mapping[int, tuple[str, ...]]
"""By status, the error codes that come with it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or a header. `schema` is its JSON schema."""

    name: str
    where: Literal["path", "query", "header"]
    meaning: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no error.

    Args:
        headers: names in `openapi.HEADERS`.
        events: the events of a stream, each with its type.
        resumable: whether each event has an `id`, after which the stream resumes.
        chunks: the events of a stream that a client may request. Their types are not listed.
        done: whether `[DONE]` follows the chunks.
    """

    status: int
    meaning: str
    body: Model | None = None
    content_type: str = "application/json"
    headers: tuple[str, ...] = ()
    events: tuple[Model, ...] = ()
    resumable: bool = True
    chunks: tuple[Model, ...] = ()
    done: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """The request and the answers of a route.

    Args:
        errors: the errors of the call.
        body: the model of the request's body.
        error: the model of the body of its errors.
        security: names in `openapi.SECURITY_SCHEMES`. One of them is needed. "" means none.
    """

    route: Route
    name: str
    summary: str
    answers: tuple[Answer, ...]
    errors: Codes
    parameters: tuple[Parameter, ...] = ()
    body: Model | None = None
    body_required: bool = True
    error: Model = ErrorBody
    security: tuple[str, ...] = ("session",)


def merged_codes(*parts: Codes) -> dict[int, tuple[str, ...]]:
    """Merge the errors of several tables."""
    merged: dict[int, tuple[str, ...]] = {}
    for part in parts:
        for status, codes in part.items():
            merged[status] = tuple(dict.fromkeys((*merged.get(status, ()), *codes)))
    return dict(sorted(merged.items()))


RESPONSE_ID = Parameter(
    "response_id",
    "path",
    "From the answer to `POST /chat/message`.",
    {"type": "string", "minLength": 1},
)
KEYS = ("", "tenantKey", "session")
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "The same request with the same key gives the same response, and nothing is generated twice.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
TIMEOUT = Parameter(
    "Evenflow-Timeout-Ms",
    "header",
    "The most milliseconds that the whole answer may take. `timeout_ms` in the body overrides it.",
    {"type": "integer", "minimum": 1},
)
FIRST_TOKEN = Parameter(
    "x-slo-ttft-ms",
    "header",
    "The deadline of the first token, in milliseconds. Of the waiting requests of one address, "
    "the one with the earliest deadline is first.",
    {"type": "integer", "minimum": 1},
)
LAST_CHUNK_ID = Parameter(
    "Last-Event-ID",
    "header",
    "The `id` of the last event that the client has, empty for none.",
    {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
)
