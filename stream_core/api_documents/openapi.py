"""The OpenAPI 3.1 document of the calls in `http_operations`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from evenflow.stream_core.api_documents.http_operations import OPERATIONS, RECEIVED, SENT
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.component_schemas import (
    Model,
    client_limits,
    component_schemas,
    frame_name,
    reference,
)
from evenflow.stream_core.http.operation import Answer, Operation, Parameter

_TEXT = {"type": "string"}
_LAST_CHUNK = {"type": "object", "required": ["data"], "properties": {"data": {"const": "[DONE]"}}}

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Evenflow-Via": (
        "Where the node has the response from: itself, the response's owner, or the store.",
        {"type": "string", "enum": ["owner", "peer", "store"]},
    ),
    "Evenflow-Next-Index": (
        "How many entries there were when the stream began.",
        {"type": "integer", "minimum": 0},
    ),
    "Retry-After": (
        "How many seconds to wait before trying again.",
        {"type": "integer", "minimum": 0},
    ),
    "WWW-Authenticate": ("`Bearer`.", _TEXT),
    "Sec-WebSocket-Protocol": ("The subprotocol that was chosen; never the token.", _TEXT),
    "Set-Cookie": (
        (
            "`WSID` names the node that answered, for the load balancer; `evenflow-events` opens "
            "one response's event stream."
        ),
        _TEXT,
    ),
    "Upgrade": ("`websocket`.", _TEXT),
    "Sec-WebSocket-Version": ("`13`.", _TEXT),
    "x-vercel-ai-ui-message-stream": ("`v1`.", _TEXT),
    "x-request-id": ("The `response_id` of the answer.", _TEXT),
    "request-id": ("The `response_id` of the answer.", _TEXT),
    "ETag": ("The offsets between which the messages are.", _TEXT),
    "Stream-Next-Offset": ("Where to read on.", _TEXT),
    "Stream-Cursor": ("For the next live read.", _TEXT),
    "Stream-Up-To-Date": ("`true`: there is nothing more yet.", _TEXT),
    "Stream-Closed": ("`true`: there will be nothing more.", _TEXT),
}
_WITH_STATUS = {
    401: ("WWW-Authenticate",),
    426: ("Upgrade", "Sec-WebSocket-Version"),
    429: ("Retry-After",),
    503: ("Retry-After",),
    529: ("Retry-After",),
}

SECURITY_SCHEMES: dict[str, dict[str, Any]] = {
    "session": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The token that `POST /session` gives.",
    },
    "tenantKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The tenant's key, where it has one: for its backend, never for a browser. "
        "Or a token of the identity provider, where one is set up.",
    },
    "eventsCookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "evenflow-events",
        "description": (
            "Set by `POST /chat/message` with `cookie: true`. It opens that response's event "
            "stream only."
        ),
    },
}


@cache
def _schemas() -> dict[str, Any]:
    return component_schemas(RECEIVED, SENT)


def openapi_document(limits: Limits) -> dict[str, Any]:
    """The document of a server with these limits."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Evenflow",
            "version": "1",
            "description": "Numbered logs of a language model's answers, read over HTTP, "
            "server-sent events and WebSockets. "
            "All errors have one shape. Besides those listed, an unknown path is answered with "
            "404 `path_not_found`, and a "
            "wrong method with 405 `method_not_allowed` and `Allow`.",
        },
        "servers": [{"url": "/"}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": SECURITY_SCHEMES,
            "headers": {
                name: {"description": meaning, "schema": schema}
                for name, (meaning, schema) in HEADERS.items()
            },
        },
        "x-limits": client_limits(limits),
    }


@cache
def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.route.public_path, {})[operation.route.method.lower()] = (
            _operation(operation)
        )
    return paths


def _operation(operation: Operation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": [{name: []} if name else {} for name in operation.security],
        "responses": dict(_responses(operation)),
    }
    if operation.parameters:
        document["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.body is not None:
        content = {"application/json": {"schema": reference(operation.body)}}
        document["requestBody"] = {"required": operation.body_required, "content": content}
    return document


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.meaning,
        "schema": dict(parameter.schema),
    }


def _responses(operation: Operation) -> Iterator[tuple[str, dict[str, Any]]]:
    for answer in operation.answers:
        yield str(answer.status), _answer(answer)
    for status, codes in operation.errors.items():
        yield str(status), _refusal(status, codes, operation.error)


def _answer(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {"description": answer.meaning}
    if answer.headers:
        document["headers"] = _headers(answer.headers)
    if answer.content_type:
        document["content"] = {answer.content_type: {"schema": _content(answer)}}
    if answer.chunks:
        events = [_data(model) for model in answer.chunks] + [_LAST_CHUNK] * answer.done
        document["content"] |= {"text/event-stream": {"schema": {"anyOf": events}}}
    return document


def _content(answer: Answer) -> dict[str, Any]:
    if answer.body is not None:
        return reference(answer.body)
    if answer.events:
        # The schema of each event, as was customary before OpenAPI 3.2.
        return {"oneOf": [_event(model, answer.resumable) for model in answer.events]}
    return {"type": "object" if answer.content_type == "application/json" else "string"}


def _event(model: Model, resumable: bool) -> dict[str, Any]:
    place = {"id": _TEXT} if resumable else {}
    fields = {"event": {"const": frame_name(model)}, **place, **_data(model)["properties"]}
    return {"type": "object", "required": list(fields), "properties": fields}


def _data(model: Model) -> dict[str, Any]:
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": reference(model),
    }
    return {"type": "object", "required": ["data"], "properties": {"data": data}}


def _refusal(status: int, codes: tuple[str, ...], error: Model) -> dict[str, Any]:
    these = {"properties": {"error": {"properties": {"code": {"enum": list(codes)}}}}}
    document: dict[str, Any] = {
        "description": ", ".join(f"`{code}`" for code in codes),
        "content": {"application/json": {"schema": {"allOf": [reference(error), these]}}},
    }
    if status in _WITH_STATUS:
        document["headers"] = _headers(_WITH_STATUS[status])
    return document


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
