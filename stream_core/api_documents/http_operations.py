"""All HTTP calls of clients. The OpenAPI document is made from this table."""

from __future__ import annotations

from stream_core.api_documents.anthropic_operations import anthropic_operation
from stream_core.api_documents.component_schemas import Model
from stream_core.api_documents.operation import Answer, Operation, Parameter, refusals
from stream_core.api_documents.responses_operations import responses_operations
from stream_core.api_documents.stream_operations import stream_operation
from stream_core.protocol import routes
from stream_core.protocol.agui_bodies import RunEvent, RunName, RunRequest
from stream_core.protocol.completion_bodies import (
    Completion,
    CompletionChunk,
    CompletionRequest,
    ModelList,
    ModelObject,
)
from stream_core.protocol.http_bodies import (
    ConversationPage,
    Health,
    MessageAccepted,
    PollAnswer,
    ResponseEntries,
    ResponseStatus,
    SessionOpened,
)
from stream_core.protocol.http_contract import CHUNK_ID_PATTERN, EVENT_ID_PATTERN, ErrorBody
from stream_core.protocol.long_poll import DEFAULT_TIMEOUT_MS
from stream_core.protocol.messages import (
    ErrorFrame,
    PostedMessage,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseRestarted,
    SessionRequest,
)
from stream_core.protocol.routes import Route
from stream_core.protocol.ui_chat_bodies import ChatRequest, Stopped, StopRequest, UIChunk

_HOST = {403: ("host_not_allowed",)}
_ANY = {400: ("bad_request",), **_HOST, 500: ("internal_error",), 503: ("node_full",)}
_POST = {415: ("unsupported_media_type",), 417: ("bad_request",)}
_BODY = {
    **_POST,
    400: ("invalid_json", "invalid_field"),
    408: ("body_timeout",),
    413: ("message_too_large",),
    415: ("unsupported_media_type", "unsupported_encoding"),
}
_TOKEN = {401: ("token_missing", "token_invalid", "token_expired"), 503: ("keys_unavailable",)}
_RESPONSE = {
    404: ("response_not_found", "path_not_found"),
    410: ("response_expired",),
    503: ("store_unavailable", "response_elsewhere", "newer_form"),
}
_READING = {400: ("invalid_field",), 429: ("response_readers",)}
_ACCEPTING = {
    409: ("causal_violation",),
    410: ("response_expired", "session_ended"),
    429: ("rate_limited", "session_in_flight", "tenant_in_flight", "queue_full", "sessions_full"),
    503: (
        "draining",
        "store_unavailable",
        "store_behind",
        "session_contended",
        "response_elsewhere",
        "newer_form",
        "node_memory",
    ),
}
_KEY = {401: ("invalid_api_key", "token_expired")}
_COMPLETING = {
    400: (
        "unsupported_parameter",
        "unsupported_value",
        "idempotency_key_reused",
        "context_length_exceeded",
        "content_policy_violation",
    ),
    404: ("model_not_found", "response_not_found"),
    410: ("response_expired", "response_cancelled", "response_restarted"),
    413: ("model_refused",),
    422: ("model_refused",),
    429: (*_ACCEPTING[429], *_READING[429], "upstream_throttled", "insufficient_quota"),
    500: ("attempts_exhausted",),
    502: ("upstream_failed", "model_not_set_up", "response_restarted"),
    503: (*_ACCEPTING[503], "queue_timeout", "queue_displaced", "upstream_overloaded"),
    504: ("first_token_timeout", "model_timeout", "timeout"),
}
_STOPPING = {503: (*_RESPONSE[503], "owner_unreachable")}
_ENDING = {status: _COMPLETING[status] for status in (422, 500, 502, 504)}
_HANDSHAKE = {
    400: ("unsupported_subprotocol",),
    403: ("origin_not_allowed",),
    426: ("upgrade_required",),
    429: ("session_connections",),
    503: ("draining", "reconnect_storm"),
}

_RESPONSE_ID = Parameter(
    "response_id",
    "path",
    "From the answer to `POST /chat/message`.",
    {"type": "string", "minLength": 1},
)
_EPOCH = Parameter(
    "epoch",
    "query",
    "The newest epoch that the client was told.",
    {"type": "integer", "minimum": 1},
)

_SESSION = Operation(
    routes.OPEN_SESSION,
    "openSession",
    "Open a session, or continue the one that is named.",
    answers=(
        Answer(201, "The session is open.", SessionOpened),
        Answer(
            429,
            "In AWS: more calls than the API's throttle allows. The body is the API's own.",
            content_type="",
        ),
    ),
    refusals=refusals(
        _ANY,
        _BODY,
        {
            401: ("tenant_key_invalid",),
            404: ("agent_not_found",),
            503: ("keys_unavailable", "node_memory"),
        },
    ),
    body=SessionRequest,
    body_required=False,
    security=("", "tenantKey"),
)
_SESSION_ID = Parameter(
    "session_id", "path", "The token's own session.", {"type": "string", "minLength": 1}
)
_ONE_SESSION = {
    404: ("session_not_found", "path_not_found"),
    503: ("store_unavailable",),
}
_MESSAGES = Operation(
    routes.MESSAGES,
    "listMessages",
    "The conversation: the session's messages that stand, with their answers so far. The newest "
    "page comes first, and the oldest message of a page.",
    answers=(Answer(200, "A page.", ConversationPage),),
    refusals=refusals(
        _ANY,
        _TOKEN,
        _ONE_SESSION,
        {400: ("invalid_field",), 404: ("message_not_found",), 410: ("session_ended",)},
    ),
    parameters=(
        _SESSION_ID,
        Parameter(
            "before",
            "query",
            "Only messages before this one: `next_before` of the page before.",
            {"type": "string"},
        ),
        Parameter(
            "limit",
            "query",
            "The most messages. More than 100 are 100; a page of 1 MiB of text ends sooner.",
            {"type": "integer", "minimum": 1, "default": 20},
        ),
    ),
)
_END_SESSION = Operation(
    routes.END_SESSION,
    "endSession",
    "End the session: running answers are cancelled, and all that is kept of it is deleted.",
    answers=(Answer(204, "It has ended, now or before.", content_type=""),),
    refusals=refusals(_ANY, _POST, _TOKEN, _ONE_SESSION),
    parameters=(_SESSION_ID,),
)
_MESSAGE = Operation(
    routes.POST_MESSAGE,
    "sendMessage",
    "Send a message. The same `message_id` again gives the same `response_id`, and nothing is "
    "generated twice.",
    answers=(Answer(202, "The message is on record.", MessageAccepted, headers=("Set-Cookie",)),),
    refusals=refusals(_ANY, _BODY, _TOKEN, _ACCEPTING, {404: ("agent_not_found",)}),
    body=PostedMessage,
)
_POLL = Operation(
    routes.POLL,
    "pollResponse",
    "The text from `from_index` on. Waits for text, as the rules of the long poll say.",
    answers=(Answer(200, "The text that there is.", PollAnswer, headers=("Evenflow-Via",)),),
    refusals=refusals(_ANY, _TOKEN, _RESPONSE, _READING, {503: ("node_memory",)}),
    parameters=(
        _RESPONSE_ID,
        Parameter(
            "from_index",
            "query",
            "The first index wanted.",
            {"type": "integer", "minimum": 0, "default": 0},
        ),
        Parameter(
            "timeout_ms",
            "query",
            "How long to wait for text. At most `poll_timeout_max_ms`.",
            {"type": "integer", "minimum": 0, "default": DEFAULT_TIMEOUT_MS},
        ),
        _EPOCH,
    ),
)
_CANCEL = Operation(
    routes.CANCEL,
    "cancelResponse",
    "Cancel the response: the model stops at once.",
    answers=(
        Answer(200, "It has ended. One that had ended before keeps its status.", ResponseStatus),
    ),
    refusals=refusals(_ANY, _POST, _TOKEN, _RESPONSE, {503: ("owner_unreachable",)}),
    parameters=(_RESPONSE_ID,),
)
_ENTRIES = Operation(
    routes.ENTRIES,
    "readEntries",
    "A range of entries that are there already. The answer never changes, so that shared caches "
    "keep it, each for one token or ticket.",
    answers=(Answer(200, "All entries of the range.", ResponseEntries),),
    refusals=refusals(_ANY, _TOKEN, _RESPONSE, _READING, {404: ("entries_not_found",)}),
    parameters=(
        _RESPONSE_ID,
        Parameter(
            "epoch",
            "path",
            "Of the last owner whose entries count. Begin with 1.",
            {"type": "integer", "minimum": 1},
        ),
        Parameter("first", "path", "The first index.", {"type": "integer", "minimum": 0}),
        Parameter(
            "last", "path", "The last index, at most 1,023 more.", {"type": "integer", "minimum": 0}
        ),
    ),
)
_EVENTS = Operation(
    routes.EVENTS,
    "streamResponse",
    "The response as server-sent events. `Last-Event-ID` resumes after the event with that `id`.",
    answers=(
        Answer(
            200,
            "The events, to the response's end.",
            content_type="text/event-stream",
            headers=("Evenflow-Via", "Evenflow-Next-Index"),
            events=(
                ResponseDelta,
                ResponsePart,
                ResponseRestarted,
                ResponseCompleted,
                ResponseFailed,
                ErrorFrame,
            ),
        ),
        Answer(204, "The client has everything: this ends an `EventSource`.", content_type=""),
    ),
    refusals=refusals(_ANY, _TOKEN, _RESPONSE, _READING),
    parameters=(
        _RESPONSE_ID,
        Parameter(
            "Last-Event-ID",
            "header",
            "The `id` of the last event that the client has, empty for none. It overrides "
            "`after` and `epoch`.",
            {"type": "string", "pattern": f"^$|{EVENT_ID_PATTERN}"},
        ),
        Parameter(
            "after",
            "query",
            "The last index that the client has.",
            {"type": "integer", "minimum": -1, "default": -1},
        ),
        _EPOCH,
    ),
    security=("session", "eventsCookie"),
)
_KEYS = ("", "tenantKey", "session")
_IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "The same request with the same key gives the same response, and nothing is generated twice.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
_LAST_CHUNK_ID = Parameter(
    "Last-Event-ID",
    "header",
    "The `id` of the last event that the client has, empty for none.",
    {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
)
_COMPLETIONS = Operation(
    routes.COMPLETIONS,
    "completeChat",
    "Answer a conversation that is in the request. docs/protocol.md lists what is done with "
    "OpenAI's other parameters.",
    answers=(
        Answer(
            200,
            "The answer. With `stream` its chunks; if it fails, an error takes the place of the "
            "last one.",
            Completion,
            headers=("Evenflow-Via", "x-request-id"),
            chunks=(CompletionChunk, ErrorBody),
        ),
    ),
    refusals=refusals(_ANY, _BODY, _KEY, _COMPLETING),
    parameters=(
        _IDEMPOTENCY_KEY,
        Parameter(
            "Last-Event-ID",
            "header",
            "With an `Idempotency-Key`: the `id` of the last chunk that the client has, empty "
            "for none.",
            {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
        ),
        Parameter(
            "Evenflow-Timeout-Ms",
            "header",
            "The most milliseconds that the whole answer may take. `timeout_ms` in the body "
            "overrides it.",
            {"type": "integer", "minimum": 1},
        ),
    ),
    body=CompletionRequest,
    security=_KEYS,
)
_MODELS = Operation(
    routes.LIST_MODELS,
    "listModels",
    "The names by which a client may ask for the model.",
    answers=(Answer(200, "The names.", ModelList),),
    refusals=refusals(_ANY, _KEY),
    security=_KEYS,
)
_MODEL = Operation(
    routes.GET_MODEL,
    "getModel",
    "Whether this is a name of the model.",
    answers=(Answer(200, "It is.", ModelObject),),
    refusals=refusals(_ANY, _KEY, {404: ("model_not_found", "path_not_found")}),
    parameters=(
        Parameter("model", "path", "A name of the list.", {"type": "string", "minLength": 1}),
    ),
    security=_KEYS,
)

_CHAT_ID = Parameter(
    "chat_id", "path", "The chat's id, as its client named it.", {"type": "string", "minLength": 1}
)
_CHAT_HEADERS = ("Evenflow-Via", "x-request-id", "x-vercel-ai-ui-message-stream")
_CHAT = Operation(
    routes.CHAT,
    "sendToChat",
    "Answer a conversation of AI SDK's `useChat`, as its UI message stream.",
    answers=(
        Answer(
            200,
            "The chunks of the answer.",
            content_type="text/event-stream",
            headers=_CHAT_HEADERS,
            chunks=(UIChunk,),
        ),
    ),
    refusals=refusals(_ANY, _BODY, _KEY, _COMPLETING, {404: ("agent_not_found",)}),
    parameters=(_IDEMPOTENCY_KEY,),
    body=ChatRequest,
    security=_KEYS,
)
_CHAT_STREAM = Operation(
    routes.CHAT_STREAM,
    "resumeChat",
    "The answer that runs in a chat, from its beginning. With `response_id` that answer, also "
    "after its end, from `Last-Event-ID` on.",
    answers=(
        Answer(
            200,
            "The chunks of the answer.",
            content_type="text/event-stream",
            headers=_CHAT_HEADERS,
            chunks=(UIChunk,),
        ),
        Answer(204, "Nothing runs.", content_type=""),
    ),
    refusals=refusals(_ANY, _KEY, _RESPONSE, _READING, _ENDING),
    parameters=(
        _CHAT_ID,
        Parameter("response_id", "query", "The `x-request-id` of an answer.", {"type": "string"}),
        _LAST_CHUNK_ID,
    ),
    security=_KEYS,
)
_CHAT_STOP = Operation(
    routes.CHAT_STOP,
    "stopChat",
    "Stop the answer that runs in a chat, and its model, whoever reads it.",
    answers=(Answer(200, "Nothing runs any more.", Stopped),),
    refusals=refusals(_ANY, _BODY, _KEY, _STOPPING),
    parameters=(_CHAT_ID,),
    body=StopRequest,
    body_required=False,
    security=_KEYS,
)
_RUN = Operation(
    routes.RUN,
    "runAgent",
    "Run an agent for AG-UI's `HttpAgent`. The same `threadId` and `runId` again give the same "
    "run, and nothing is generated twice.",
    answers=(
        Answer(
            200,
            "The events of the run.",
            content_type="text/event-stream",
            headers=("Evenflow-Via",),
            chunks=(RunEvent,),
        ),
    ),
    refusals=refusals(_ANY, _BODY, _KEY, _COMPLETING, {404: ("agent_not_found",)}),
    parameters=(_LAST_CHUNK_ID,),
    body=RunRequest,
    security=_KEYS,
)
_RUN_STOP = Operation(
    routes.RUN_STOP,
    "stopRun",
    "Stop a run, and its model, whoever reads it.",
    answers=(Answer(200, "It does not run any more.", Stopped),),
    refusals=refusals(_ANY, _BODY, _KEY, _STOPPING),
    body=RunName,
    security=_KEYS,
)


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
        refusals=refusals(_ANY, _TOKEN, _HANDSHAKE),
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


_WEBSOCKETS = (
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
    "Whether the task takes new connections. Not reachable through CloudFront.",
    answers=(Answer(200, "It does.", Health), Answer(503, "It is leaving, or full.", Health)),
    refusals=refusals(_HOST, {500: ("internal_error",)}),
    security=(),
)
_METRICS = Operation(
    routes.METRICS,
    "metrics",
    "The metrics that docs/metrics.md lists, for the task's own machine or at a port of their own. "
    "Not reachable through CloudFront.",
    answers=(Answer(200, "Prometheus' text format.", content_type="text/plain"),),
    refusals=refusals(_HOST, {404: ("path_not_found",), 500: ("internal_error",)}),
    security=(),
)
_DOCUMENTS = tuple(
    Operation(
        route,
        name,
        summary,
        answers=(Answer(200, "The document.", content_type="application/json"),),
        refusals=refusals(_ANY),
        security=(),
    )
    for route, name, summary in (
        (routes.OPENAPI, "openapi", "This document."),
        (routes.ASYNCAPI, "asyncapi", "The WebSocket's frames, as an AsyncAPI document."),
    )
)

OPERATIONS: tuple[Operation, ...] = (
    _SESSION,
    _MESSAGES,
    _END_SESSION,
    _MESSAGE,
    _POLL,
    _CANCEL,
    _EVENTS,
    _ENTRIES,
    _COMPLETIONS,
    _MODELS,
    _MODEL,
    *responses_operations(
        refusals(_ANY, _BODY, _KEY, _COMPLETING), refusals(_ANY, _KEY), _HANDSHAKE, _KEYS
    ),
    anthropic_operation(refusals(_ANY, _BODY, _KEY, _COMPLETING), _KEYS),
    stream_operation(refusals(_ANY, _TOKEN, _RESPONSE, _READING), _RESPONSE_ID),
    _CHAT,
    _CHAT_STREAM,
    _CHAT_STOP,
    _RUN,
    _RUN_STOP,
    *_WEBSOCKETS,
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
