"""The calls of OpenAI's Chat Completions API."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import ANY, BODY, COMPLETING, KEY
from evenflow.stream_core.http.http_contract import CHUNK_ID_PATTERN, ErrorBody
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    IDEMPOTENCY_KEY,
    KEYS,
    TIMEOUT,
    Answer,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.openai_chat.bodies import (
    Completion,
    CompletionChunk,
    CompletionRequest,
    ModelList,
    ModelObject,
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
    errors=merged_codes(ANY, BODY, KEY, COMPLETING),
    parameters=(
        IDEMPOTENCY_KEY,
        Parameter(
            "Last-Event-ID",
            "header",
            "With an `Idempotency-Key`: the `id` of the last chunk that the client has, empty "
            "for none.",
            {"type": "string", "pattern": f"^$|{CHUNK_ID_PATTERN}"},
        ),
        TIMEOUT,
        FIRST_TOKEN,
    ),
    body=CompletionRequest,
    security=KEYS,
)
_MODELS = Operation(
    routes.LIST_MODELS,
    "listModels",
    "The names of the models that a client may request.",
    answers=(Answer(200, "The names.", ModelList),),
    errors=merged_codes(ANY, KEY),
    security=KEYS,
)
_MODEL = Operation(
    routes.GET_MODEL,
    "getModel",
    "Whether this is a name of the model.",
    answers=(Answer(200, "It is.", ModelObject),),
    errors=merged_codes(ANY, KEY, {404: ("model_not_found", "path_not_found")}),
    parameters=(
        Parameter("model", "path", "A name of the list.", {"type": "string", "minLength": 1}),
    ),
    security=KEYS,
)

COMPLETION_OPERATIONS: tuple[Operation, ...] = (_COMPLETIONS, _MODELS, _MODEL)
