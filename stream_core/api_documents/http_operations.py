"""Every HTTP call that clients may make: the one place where a call is added to the OpenAPI document."""

from __future__ import annotations

from stream_core.api_documents.component_schemas import Model
from stream_core.api_documents.operation import Answer, Operation, Parameter, refusals
from stream_core.error_body import ErrorBody
from stream_core.http_bodies import Health, MessageAccepted, PollAnswer, ResponseStatus, SessionOpened
from stream_core.http_contract import EVENT_ID_PATTERN
from stream_core.long_poll import DEFAULT_TIMEOUT_MS
from stream_core.messages import (
    PostedMessage,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponseRestarted,
    SessionRequest,
)

_ANY = {400: ("bad_request",), 500: ("internal_error",), 503: ("node_full",)}
_BODY = {400: ("invalid_json", "invalid_field"), 413: ("message_too_large",), 417: ("bad_request",)}
_TOKEN = {401: ("token_missing", "token_invalid", "token_expired"), 503: ("keys_unavailable",)}
_RESPONSE = {
    404: ("response_not_found", "path_not_found"),
    410: ("response_expired",),
    503: ("store_unavailable", "response_elsewhere"),
}
_READING = {400: ("invalid_field",), 429: ("response_readers",)}
_ACCEPTING = {
    409: ("causal_violation",),
    410: ("response_expired",),
    429: ("rate_limited", "session_in_flight", "tenant_in_flight", "queue_full", "sessions_full"),
    503: ("draining", "store_unavailable", "store_behind", "session_contended", "response_elsewhere"),
}
_HANDSHAKE = {
    400: ("unsupported_subprotocol",),
    426: ("upgrade_required",),
    429: ("session_connections",),
    503: ("draining", "reconnect_storm"),
}

_RESPONSE_ID = Parameter(
    "response_id", "path", "Of the answer to `POST /chat/message`.", {"type": "string", "minLength": 1}
)
_EPOCH = Parameter(
    "epoch", "query", "The newest that an answer or a frame of it said.", {"type": "integer", "minimum": 1}
)

_SESSION = Operation(
    "post",
    "/session",
    "openSession",
    "Open a session, or continue the one that is named.",
    answers=(
        Answer(201, "The session is open.", SessionOpened),
        Answer(
            429, "In AWS: more calls than the API's throttle lets through. The body is the API's own.", content_type=""
        ),
    ),
    refusals=refusals(_ANY, _BODY, {401: ("tenant_key_invalid",), 503: ("keys_unavailable",)}),
    body=SessionRequest,
    body_required=False,
    security=("", "tenantKey"),
)
_MESSAGE = Operation(
    "post",
    "/chat/message",
    "sendMessage",
    "Send a message. The same `message_id` again gives the same `response_id`, and nothing is generated twice.",
    answers=(Answer(202, "The message is kept.", MessageAccepted, headers=("Set-Cookie",)),),
    refusals=refusals(_ANY, _BODY, _TOKEN, _ACCEPTING),
    body=PostedMessage,
)
_POLL = Operation(
    "get",
    "/chat/message/{response_id}",
    "pollResponse",
    "The text from `from_index` on, as soon as the rules of long-polling say so.",
    answers=(Answer(200, "What there is.", PollAnswer, headers=("Evenflow-Via",)),),
    refusals=refusals(_ANY, _TOKEN, _RESPONSE, _READING),
    parameters=(
        _RESPONSE_ID,
        Parameter("from_index", "query", "The first index wanted.", {"type": "integer", "minimum": 0, "default": 0}),
        Parameter(
            "timeout_ms",
            "query",
            "How long to wait for text; more than `poll_timeout_max_ms` is cut to that.",
            {"type": "integer", "minimum": 0, "default": DEFAULT_TIMEOUT_MS},
        ),
        _EPOCH,
    ),
)
_CANCEL = Operation(
    "post",
    "/chat/message/{response_id}/cancel",
    "cancelResponse",
    "Stop the model at once.",
    answers=(Answer(200, "It has ended; a response that had ended before keeps its status.", ResponseStatus),),
    refusals=refusals(_ANY, {417: ("bad_request",)}, _TOKEN, _RESPONSE, {503: ("owner_unreachable",)}),
    parameters=(_RESPONSE_ID,),
)
_EVENTS = Operation(
    "get",
    "/chat/message/{response_id}/events",
    "streamResponse",
    "The response as server-sent events, each with the `id` behind which `Last-Event-ID` resumes.",
    answers=(
        Answer(
            200,
            "The events, to the response's end.",
            content_type="text/event-stream",
            headers=("Evenflow-Via", "Evenflow-Next-Index"),
            events=(ResponseDelta, ResponseRestarted, ResponseCompleted, ResponseFailed),
        ),
        Answer(204, "The client has everything: this ends an `EventSource`.", content_type=""),
    ),
    refusals=refusals(_ANY, _TOKEN, _RESPONSE, _READING),
    parameters=(
        _RESPONSE_ID,
        Parameter(
            "Last-Event-ID",
            "header",
            "The `id` of the last event that the client has (empty: none); goes before `after` and `epoch`.",
            {"type": "string", "pattern": f"^$|{EVENT_ID_PATTERN}"},
        ),
        Parameter(
            "after", "query", "The last index that the client has.", {"type": "integer", "minimum": -1, "default": -1}
        ),
        _EPOCH,
    ),
    security=("session", "eventsCookie"),
)
_WEBSOCKET = Operation(
    "get",
    "/ws",
    "openWebSocket",
    "The handshake of the WebSocket, at the address that `POST /session` gives as `ws_url`: see `/asyncapi.json`.",
    answers=(Answer(101, "The WebSocket is open.", content_type="", headers=("Sec-WebSocket-Protocol", "Set-Cookie")),),
    refusals=refusals(_ANY, _TOKEN, _HANDSHAKE),
    parameters=(
        Parameter(
            "Sec-WebSocket-Protocol",
            "header",
            "`evenflow.v1` or `evenflow.v1.compact`, and `bearer.<token>` from who can't send `Authorization`.",
            {"type": "string"},
        ),
        Parameter("replace", "query", "1: close the session's other connections.", {"type": "string"}),
    ),
    security=("", "session"),
)
_HEALTH = Operation(
    "get",
    "/health",
    "health",
    "Whether the task takes new connections. Not reachable through CloudFront.",
    answers=(Answer(200, "It does.", Health), Answer(503, "It is leaving, or full.", Health)),
    refusals={500: ("internal_error",)},
    security=(),
)
_METRICS = Operation(
    "get",
    "/metrics",
    "metrics",
    "What docs/metrics.md lists. Not reachable through CloudFront.",
    answers=(Answer(200, "Prometheus' text format.", content_type="text/plain"),),
    refusals={500: ("internal_error",)},
    security=(),
)
_DOCUMENTS = tuple(
    Operation(
        "get",
        path,
        name,
        summary,
        answers=(Answer(200, "The document.", content_type="application/json"),),
        refusals=refusals(_ANY),
        security=(),
    )
    for path, name, summary in (
        ("/openapi.json", "openapi", "This document."),
        ("/asyncapi.json", "asyncapi", "The WebSocket's frames, as an AsyncAPI document."),
    )
)

OPERATIONS: tuple[Operation, ...] = (
    _SESSION,
    _MESSAGE,
    _POLL,
    _CANCEL,
    _EVENTS,
    _WEBSOCKET,
    _HEALTH,
    _METRICS,
    *_DOCUMENTS,
)

RECEIVED: tuple[Model, ...] = tuple(operation.body for operation in OPERATIONS if operation.body is not None)
SENT: tuple[Model, ...] = (
    ErrorBody,
    *(answer.body for operation in OPERATIONS for answer in operation.answers if answer.body is not None),
    *(event for operation in OPERATIONS for answer in operation.answers for event in answer.events),
)
