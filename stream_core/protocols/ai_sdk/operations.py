"""The calls of AI SDK's chats, as OpenAPI describes them."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import (
    ANY,
    BODY,
    COMPLETING,
    ENDING,
    KEY,
    READING,
    RESPONSE,
    STOPPING,
    STREAMING,
)
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    IDEMPOTENCY_KEY,
    KEYS,
    LAST_CHUNK_ID,
    Answer,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.ai_sdk.bodies import (
    ChatMessages,
    ChatRequest,
    Stopped,
    StopRequest,
    UIChunk,
)

_CHAT_ID = Parameter(
    "chat_id", "path", "The chat's id, as its client named it.", {"type": "string", "minLength": 1}
)
_CHUNKS = Answer(
    200,
    "The chunks of the answer.",
    content_type="text/event-stream",
    headers=("Evenflow-Via", "x-request-id", "x-vercel-ai-ui-message-stream"),
    chunks=(UIChunk,),
)
_CHAT = Operation(
    routes.CHAT,
    "sendToChat",
    "Answer a conversation of AI SDK's `useChat`, as its UI message stream.",
    answers=(_CHUNKS,),
    errors=merged_codes(ANY, BODY, KEY, COMPLETING, {404: ("agent_not_found",)}),
    parameters=(IDEMPOTENCY_KEY, FIRST_TOKEN),
    body=ChatRequest,
    security=KEYS,
)
_CHAT_MESSAGES = Operation(
    routes.CHAT_MESSAGES,
    "readChat",
    "The messages of a chat, for `useChat` after a reload: those of its newest request, "
    "and the answer as far as it has come. Without a chat of this id there are none.",
    answers=(Answer(200, "The messages, oldest first.", ChatMessages),),
    errors=merged_codes(
        ANY,
        KEY,
        {
            400: ("invalid_field",),
            404: ("message_not_found",),
            429: ("address_bytes",),
            503: ("store_unavailable",),
        },
    ),
    parameters=(
        _CHAT_ID,
        Parameter("before", "query", "Only messages before this one.", {"type": "string"}),
        Parameter(
            "limit",
            "query",
            "The most messages. Default: all.",
            {"type": "integer", "minimum": 1},
        ),
    ),
    security=KEYS,
)
_CHAT_STREAM = Operation(
    routes.CHAT_STREAM,
    "resumeChat",
    "The answer that runs in a chat, from its beginning. With `response_id` that answer, also "
    "after its end, from `Last-Event-ID` on.",
    answers=(_CHUNKS, Answer(204, "Nothing runs.", content_type="")),
    errors=merged_codes(ANY, KEY, RESPONSE, READING, STREAMING, ENDING),
    parameters=(
        _CHAT_ID,
        Parameter("response_id", "query", "The `x-request-id` of an answer.", {"type": "string"}),
        LAST_CHUNK_ID,
    ),
    security=KEYS,
)
_CHAT_STOP = Operation(
    routes.CHAT_STOP,
    "stopChat",
    "Stop the running answer of a chat, and its model, even if it has readers.",
    answers=(Answer(200, "No answer is running.", Stopped),),
    errors=merged_codes(ANY, BODY, KEY, STOPPING),
    parameters=(_CHAT_ID,),
    body=StopRequest,
    body_required=False,
    security=KEYS,
)

AI_SDK_OPERATIONS = (_CHAT, _CHAT_MESSAGES, _CHAT_STREAM, _CHAT_STOP)
