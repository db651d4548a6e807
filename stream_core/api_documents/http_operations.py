"""All HTTP calls of clients. The OpenAPI document is made from this table."""

from __future__ import annotations

from evenflow.stream_core.api_documents.session_operations import (
    SESSION_OPERATIONS,
    USAGE_OPERATION,
)
from evenflow.stream_core.http import routes
from evenflow.stream_core.http.component_schemas import Model
from evenflow.stream_core.http.error_codes import ANY, HANDSHAKE, HOST, TOKEN
from evenflow.stream_core.http.operation import Answer, Operation, Parameter, merged_codes
from evenflow.stream_core.http.routes import Route
from evenflow.stream_core.protocols.ag_ui.operations import AG_UI_OPERATIONS
from evenflow.stream_core.protocols.ai_sdk.operations import AI_SDK_OPERATIONS
from evenflow.stream_core.protocols.anthropic.operations import ANTHROPIC_OPERATION
from evenflow.stream_core.protocols.durable_streams.operations import STREAM_OPERATION
from evenflow.stream_core.protocols.evenflow.http_bodies import Health
from evenflow.stream_core.protocols.openai_chat.operations import COMPLETION_OPERATIONS
from evenflow.stream_core.protocols.openai_responses.operations import RESPONSES_OPERATIONS


def _websocket(route: Route, name: str, summary: str, subprotocols: str) -> Operation:
    return Operation(
        route,
        name,
        f"{summary}. `/asyncapi.json` describes its frames.",
        answers=(
            Answer(
                101,
                "The WebSocket is open.",
                content_type="",
                headers=("Sec-WebSocket-Protocol", "Set-Cookie"),
            ),
        ),
        errors=merged_codes(ANY, TOKEN, HANDSHAKE),
        parameters=(
            Parameter(
                "Sec-WebSocket-Protocol",
                "header",
                f"{subprotocols}. Also `bearer.<token>` from clients that can't send "
                "`Authorization`.",
                {"type": "string"},
            ),
            Parameter(
                "replace", "query", "1: close the session's other connections.", {"type": "string"}
            ),
        ),
        security=("", "session"),
    )


WEBSOCKET_OPERATIONS: tuple[Operation, ...] = (
    _websocket(
        routes.WEBSOCKET,
        "openWebSocket",
        "The handshake of the WebSocket, at the address that `POST /session` gives as `ws_url`",
        "`evenflow.v1` or `evenflow.v1.compact`",
    ),
    _websocket(
        routes.REALTIME,
        "openRealtime",
        "The handshake of the WebSocket for clients that set the pace",
        "`evenflow.realtime.v1`",
    ),
    _websocket(
        routes.OPENAI_REALTIME,
        "openRealtimeOfV1",
        "The same as `/realtime`. It isn't OpenAI's Realtime API: that API's clients are sent an "
        "`error` event and a close",
        "`evenflow.realtime.v1`",
    ),
)


_HEALTH = Operation(
    routes.HEALTH,
    "health",
    "Whether the node takes new connections. Not reachable through CloudFront.",
    answers=(Answer(200, "It does.", Health), Answer(503, "It is leaving, or full.", Health)),
    errors=merged_codes(HOST, {500: ("internal_error",)}),
    security=(),
)
_METRICS = Operation(
    routes.METRICS,
    "metrics",
    "The metrics that docs/metrics.md lists, for the node's own machine or at a port of their own. "
    "Not reachable through CloudFront.",
    answers=(Answer(200, "Prometheus' text format.", content_type="text/plain"),),
    errors=merged_codes(HOST, {404: ("path_not_found",), 500: ("internal_error",)}),
    security=(),
)
_DOCUMENTS = tuple(
    Operation(
        route,
        name,
        summary,
        answers=(Answer(200, "The document.", content_type="application/json"),),
        errors=merged_codes(ANY),
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
    *AI_SDK_OPERATIONS,
    *AG_UI_OPERATIONS,
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
