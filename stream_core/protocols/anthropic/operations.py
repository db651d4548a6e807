"""The call of Anthropic's API."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import ANY, BODY, COMPLETING, KEY
from evenflow.stream_core.http.http_contract import CHUNK_ID_PATTERN
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    IDEMPOTENCY_KEY,
    KEYS,
    Answer,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.anthropic.bodies import (
    AnswerMessage,
    AnthropicError,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    MessageDelta,
    MessagePing,
    MessagesRequest,
    MessageStart,
    MessageStop,
)

_EVENTS = (
    *(MessageStart, ContentBlockStart, ContentBlockDelta, ContentBlockStop),
    *(MessageDelta, MessageStop, MessagePing, AnthropicError),
)
_MAKING = merged_codes(ANY, BODY, KEY, COMPLETING)

ANTHROPIC_OPERATION = Operation(
    routes.ANTHROPIC_MESSAGES,
    "createAnthropicMessage",
    "Answer a conversation that is in the request. docs/protocol.md lists what is done with "
    "each parameter.",
    answers=(
        Answer(
            200,
            "The answer. With `stream` its events, each with its type as the name of the event.",
            AnswerMessage,
            headers=("Evenflow-Via", "request-id"),
            chunks=_EVENTS,
            done=False,
        ),
    ),
    errors={529 if status == 503 else status: codes for status, codes in _MAKING.items()},
    error=AnthropicError,
    parameters=(
        Parameter("anthropic-version", "header", "Any but the first.", {"type": "string"}),
        IDEMPOTENCY_KEY,
        Parameter(
            "Last-Event-ID",
            "header",
            "With an `Idempotency-Key`: the `id` of the last event that the client has.",
            {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
        ),
        Parameter(
            "Evenflow-Timeout-Ms",
            "header",
            "The most milliseconds that the whole answer may take.",
            {"type": "integer", "minimum": 1},
        ),
        FIRST_TOKEN,
    ),
    body=MessagesRequest,
    security=KEYS,
)
