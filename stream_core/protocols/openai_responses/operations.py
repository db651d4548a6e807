"""The calls of OpenAI's Responses API."""

from __future__ import annotations

from dataclasses import replace

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import ANY, BODY, COMPLETING, HANDSHAKE, KEY
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    IDEMPOTENCY_KEY,
    KEYS,
    TIMEOUT,
    Answer,
    Codes,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.openai_responses.bodies import (
    DeletedResponse,
    InputItemList,
    ResponseBody,
    ResponseEventBody,
    ResponseRequest,
)

_ID = Parameter(
    "response_id", "path", "The `id` of a response.", {"type": "string", "minLength": 1}
)
_LAST = Parameter(
    "Last-Event-ID",
    "header",
    "The `sequence_number` of the last event that the client has.",
    {"type": "string", "pattern": "^[0-9]{1,18}$"},
)
_QUERY = (
    Parameter("stream", "query", "`true`: the response's events.", {"type": "string"}),
    Parameter(
        "starting_after",
        "query",
        "With `stream`: the `sequence_number` of the last event that the client has.",
        {"type": "integer", "minimum": 0},
    ),
)
_PAGE = (
    Parameter("limit", "query", "How many items.", {"type": "integer", "minimum": 1}),
    Parameter("after", "query", "The `id` of the item before the page.", {"type": "string"}),
    Parameter("order", "query", "The newest last (`asc`) or first.", {"enum": ["asc", "desc"]}),
)
_RESPONSE = Answer(
    200,
    "The response. With `stream` its events, each with the `sequence_number` as its `id`.",
    ResponseBody,
    headers=("Evenflow-Via", "x-request-id"),
    chunks=(ResponseEventBody,),
    done=False,
)
_EARLIER: Codes = {400: ("previous_response_not_found", "previous_response_in_progress")}
_FOUND = merged_codes(
    ANY,
    KEY,
    {
        400: ("invalid_field",),
        404: ("response_not_found", "path_not_found"),
        410: ("response_expired", "session_ended"),
        429: ("address_bytes",),
        503: ("store_unavailable", "response_elsewhere", "newer_form", "node_memory"),
    },
)
_CALLS = (
    Operation(
        routes.CREATE_RESPONSE,
        "createOpenAIResponse",
        "Create a response. docs/protocol.md describes each parameter.",
        answers=(_RESPONSE,),
        errors=merged_codes(ANY, BODY, KEY, COMPLETING, _EARLIER),
        parameters=(IDEMPOTENCY_KEY, _LAST, TIMEOUT, FIRST_TOKEN),
        body=ResponseRequest,
    ),
    Operation(
        routes.RESPONSES_WEBSOCKET,
        "openOpenAIResponses",
        "The handshake of the WebSocket of the Responses API: `response.create` messages, "
        "and the events of each response.",
        answers=(Answer(101, "The WebSocket is open.", content_type=""),),
        errors=merged_codes(ANY, KEY, HANDSHAKE),
    ),
    Operation(
        routes.GET_RESPONSE,
        "getOpenAIResponse",
        "A response as it is now, or its events from a number on.",
        answers=(_RESPONSE,),
        errors=merged_codes(
            _FOUND, {410: ("response_restarted",), 429: ("response_readers", "session_streams")}
        ),
        parameters=(_ID, *_QUERY, _LAST),
    ),
    Operation(
        routes.DELETE_RESPONSE,
        "deleteOpenAIResponse",
        "Stop a response, and delete it.",
        answers=(Answer(200, "It is deleted.", DeletedResponse),),
        errors=_FOUND,
        parameters=(_ID,),
    ),
    Operation(
        routes.CANCEL_RESPONSE,
        "cancelOpenAIResponse",
        "Stop a response. One that has ended stays unchanged.",
        answers=(replace(_RESPONSE, chunks=(), headers=()),),
        errors=merged_codes(_FOUND, {503: ("owner_unreachable",)}),
        parameters=(_ID,),
    ),
    Operation(
        routes.INPUT_ITEMS,
        "listOpenAIInputItems",
        "The items of a response's own input.",
        answers=(Answer(200, "A page of items.", InputItemList),),
        errors=_FOUND,
        parameters=(_ID, *_PAGE),
    ),
)

RESPONSES_OPERATIONS: tuple[Operation, ...] = tuple(replace(call, security=KEYS) for call in _CALLS)
