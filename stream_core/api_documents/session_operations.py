"""The calls of sessions, their messages and responses."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import (
    ACCEPTING,
    ANY,
    BODY,
    IDENTITY,
    KEY,
    LIVE,
    POST,
    READING,
    RESPONSE,
    STREAMING,
    TOKEN,
)
from evenflow.stream_core.http.http_contract import EVENT_ID_PATTERN
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    RESPONSE_ID,
    Answer,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.evenflow.http_bodies import (
    ConversationPage,
    MessageAccepted,
    PollAnswer,
    ResponseEntries,
    ResponseStatus,
    SessionOpened,
    SessionShared,
    UsageReport,
)
from evenflow.stream_core.protocols.evenflow.long_poll import DEFAULT_TIMEOUT_MS
from evenflow.stream_core.protocols.evenflow.messages import (
    ErrorFrame,
    PostedMessage,
    PostedResult,
    PresenceNotice,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseRestarted,
    SessionRequest,
    ShareRequest,
)

_DAY = {"type": "string", "format": "date"}

USAGE_OPERATION = Operation(
    routes.USAGE,
    "readUsage",
    "The usage of the key's tenant by day and model, and what is left of its budgets. With a "
    "session's token: the same for the session's user.",
    answers=(Answer(200, "The days that have any answers, and the budgets now.", UsageReport),),
    errors=merged_codes(
        ANY,
        KEY,
        {
            400: ("invalid_field",),
            404: ("usage_not_found", "path_not_found"),
            503: ("store_unavailable",),
        },
    ),
    parameters=(
        Parameter("from", "query", "The first day of UTC. Default: of the month of `to`.", _DAY),
        Parameter("to", "query", "The last day of UTC. Default: today.", _DAY),
    ),
    security=("tenantKey", "session"),
)


_EPOCH = Parameter(
    "epoch",
    "query",
    "The newest epoch that the client has received.",
    {"type": "integer", "minimum": 1},
)

_SESSION = Operation(
    routes.OPEN_SESSION,
    "openSession",
    "Open a session, or continue an existing one.",
    answers=(Answer(201, "The session is open.", SessionOpened),),
    errors=merged_codes(
        ANY,
        BODY,
        {
            401: ("tenant_key_invalid",),
            403: ("identity_mismatch",),
            404: ("agent_not_found",),
            429: ("address_sessions",),
            503: ("keys_unavailable", "node_memory"),
        },
        IDENTITY,
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
    "The conversation: the session's messages with their answers so far, and the ids of their "
    "versions. The newest page comes first. In a page the oldest message is first.",
    answers=(Answer(200, "A page.", ConversationPage),),
    errors=merged_codes(
        ANY,
        TOKEN,
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
            "through",
            "query",
            "The newest version of the conversation that has this message. The newest one of all "
            "where it is left out.",
            {"type": "string"},
        ),
        Parameter(
            "limit",
            "query",
            "The most messages, up to 100. A page with 1 MiB of text ends sooner.",
            {"type": "integer", "minimum": 1, "default": 20},
        ),
    ),
)
_END_SESSION = Operation(
    routes.END_SESSION,
    "endSession",
    "End the session: running answers are cancelled, and all that is kept of it is deleted.",
    answers=(Answer(204, "It has ended, now or before.", content_type=""),),
    errors=merged_codes(ANY, POST, TOKEN, _ONE_SESSION),
    parameters=(_SESSION_ID,),
)
_SHARE = Operation(
    routes.SHARE,
    "shareSession",
    "A token for other readers: of one response, or of the whole session, live. It can't "
    "write, cancel or share.",
    answers=(Answer(201, "The token.", SessionShared),),
    errors=merged_codes(ANY, BODY, TOKEN, RESPONSE, _ONE_SESSION),
    parameters=(_SESSION_ID,),
    body=ShareRequest,
    body_required=False,
)
_MESSAGE = Operation(
    routes.POST_MESSAGE,
    "sendMessage",
    "Send a message. The same `message_id` again gives the same `response_id`, and nothing is "
    "generated twice.",
    answers=(Answer(202, "The message is on record.", MessageAccepted, headers=("Set-Cookie",)),),
    errors=merged_codes(
        ANY,
        BODY,
        TOKEN,
        ACCEPTING,
        {400: ("unsupported_value", "invalid_request"), 404: ("agent_not_found",)},
    ),
    body=PostedMessage,
    parameters=(FIRST_TOKEN,),
)
_POLL = Operation(
    routes.POLL,
    "pollResponse",
    "Long poll: the text from `from_index` on. Waits until there is some.",
    answers=(Answer(200, "The text so far.", PollAnswer, headers=("Evenflow-Via",)),),
    errors=merged_codes(ANY, TOKEN, RESPONSE, READING, STREAMING, {503: ("node_memory",)}),
    parameters=(
        RESPONSE_ID,
        Parameter(
            "from_index",
            "query",
            "The first index to return.",
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
    errors=merged_codes(ANY, POST, TOKEN, RESPONSE, {503: ("owner_unreachable",)}),
    parameters=(RESPONSE_ID,),
)
_TOOL_RESULT = Operation(
    routes.TOOL_RESULT,
    "sendToolResult",
    "Send the result of a tool call of the client, or cancel the call. When each call has a "
    "result, the model continues the same answer. A second result changes nothing.",
    answers=(Answer(200, "The result is accepted.", ResponseStatus),),
    errors=merged_codes(
        ANY, BODY, TOKEN, RESPONSE, {409: ("call_not_open",), 503: ("owner_unreachable",)}
    ),
    body=PostedResult,
    parameters=(RESPONSE_ID,),
)
_ENTRIES = Operation(
    routes.ENTRIES,
    "readEntries",
    "A range of existing entries. The answer never changes, so that shared caches "
    "keep it, each for one token or ticket.",
    answers=(Answer(200, "All entries of the range.", ResponseEntries),),
    errors=merged_codes(ANY, TOKEN, RESPONSE, READING, {404: ("entries_not_found",)}),
    parameters=(
        RESPONSE_ID,
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
    errors=merged_codes(ANY, TOKEN, RESPONSE, READING, LIVE, STREAMING),
    parameters=(
        RESPONSE_ID,
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

_PRESENCE = Operation(
    routes.PRESENCE,
    "watchPresence",
    "The readers of the response, as server-sent events: now, and on each change, to its end.",
    answers=(
        Answer(
            200,
            "The readers, on all nodes.",
            content_type="text/event-stream",
            events=(PresenceNotice,),
            resumable=False,
        ),
        Answer(204, "The response has ended: this ends an `EventSource`.", content_type=""),
    ),
    errors=merged_codes(ANY, TOKEN, RESPONSE, STREAMING, {429: ("presence_listeners",)}),
    parameters=(RESPONSE_ID,),
)

SESSION_OPERATIONS: tuple[Operation, ...] = (
    _SESSION,
    _MESSAGES,
    _END_SESSION,
    _SHARE,
    _MESSAGE,
    _POLL,
    _CANCEL,
    _TOOL_RESULT,
    _EVENTS,
    _PRESENCE,
    _ENTRIES,
)
