"""All HTTP calls of clients. The OpenAPI document is made from this table."""

from __future__ import annotations

from evenflow.stream_core.api_documents.interface_operations import INTERFACE_OPERATIONS
from evenflow.stream_core.api_documents.session_operations import SESSION_OPERATIONS
from evenflow.stream_core.api_documents.usage_operation import USAGE_OPERATION
from evenflow.stream_core.api_documents.websocket_operations import WEBSOCKET_OPERATIONS
from evenflow.stream_core.http import routes
from evenflow.stream_core.http.component_schemas import Model
from evenflow.stream_core.http.operation import Answer, Operation, refusals
from evenflow.stream_core.http.refusal_codes import ANY, HOST
from evenflow.stream_core.protocols.anthropic.operations import ANTHROPIC_OPERATION
from evenflow.stream_core.protocols.durable_streams.operations import STREAM_OPERATION
from evenflow.stream_core.protocols.evenflow.http_bodies import Health
from evenflow.stream_core.protocols.openai_chat.operations import COMPLETION_OPERATIONS
from evenflow.stream_core.protocols.openai_responses.operations import RESPONSES_OPERATIONS

_HEALTH = Operation(
    routes.HEALTH,
    "health",
    "Whether the task takes new connections. Not reachable through CloudFront.",
    answers=(Answer(200, "It does.", Health), Answer(503, "It is leaving, or full.", Health)),
    refusals=refusals(HOST, {500: ("internal_error",)}),
    security=(),
)
_METRICS = Operation(
    routes.METRICS,
    "metrics",
    "The metrics that docs/metrics.md lists, for the task's own machine or at a port of their own. "
    "Not reachable through CloudFront.",
    answers=(Answer(200, "Prometheus' text format.", content_type="text/plain"),),
    refusals=refusals(HOST, {404: ("path_not_found",), 500: ("internal_error",)}),
    security=(),
)
_DOCUMENTS = tuple(
    Operation(
        route,
        name,
        summary,
        answers=(Answer(200, "The document.", content_type="application/json"),),
        refusals=refusals(ANY),
        security=(),
    )
    for route, name, summary in (
        (routes.OPENAPI, "openapi", "This document."),
        (routes.ASYNCAPI, "asyncapi", "The WebSocket's frames, as an AsyncAPI document."),
    )
)

OPERATIONS: tuple[Operation, ...] = (
    *SESSION_OPERATIONS,
    USAGE_OPERATION,
    *COMPLETION_OPERATIONS,
    *RESPONSES_OPERATIONS,
    ANTHROPIC_OPERATION,
    STREAM_OPERATION,
    *INTERFACE_OPERATIONS,
    *WEBSOCKET_OPERATIONS,
    _HEALTH,
    _METRICS,
    *_DOCUMENTS,
)

RECEIVED: tuple[Model, ...] = tuple(
    operation.body for operation in OPERATIONS if operation.body is not None
)
SENT: tuple[Model, ...] = (
    *dict.fromkeys(operation.error for operation in OPERATIONS),
    *(
        answer.body
        for operation in OPERATIONS
        for answer in operation.answers
        if answer.body is not None
    ),
    *(
        event
        for operation in OPERATIONS
        for answer in operation.answers
        for event in (*answer.events, *answer.chunks)
    ),
)
