"""The bodies of `/v1`, OpenAI's API, as typed models. `stream_core.api_documents` describes them from here.

Answers are not built from these models: `completion_objects` writes their bytes, and a test compares the two.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""What a message's role is → what the model is told that it is."""

_MOST_STOPS = 4
_INT64 = 2**63

_Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
_Stop = Annotated[str, Field(min_length=1)]


class _Given(BaseModel):
    # What isn't named here is looked at by name where a request is read: nothing is ignored in silence.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class ContentPart(_Given):
    """A part of a message; only text is taken."""

    type: str
    text: str | None = None


class RequestMessage(_Given):
    """A message of the conversation."""

    role: Annotated[str, Field(json_schema_extra={"enum": list(ROLES)})]
    content: str | list[ContentPart] | None = None


class StreamOptions(_Given):
    """What a stream says beside the answer."""

    include_usage: bool | None = None


class CompletionRequest(_Given):
    """The parameters that are obeyed. `timeout_ms` is ours: so long may the whole answer take."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    messages: Annotated[list[RequestMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=_MOST_STOPS)] | None = None
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    timeout_ms: Annotated[int, Field(ge=1)] | None = None


COMPLETION_REQUEST: TypeAdapter[CompletionRequest] = TypeAdapter(CompletionRequest)

_FinishReason = Literal["stop", "length"]


class CompletionUsage(BaseModel):
    """What was counted, in the model's tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str
    refusal: None


class CompletionChoice(BaseModel):
    """The one answer of a request."""

    index: Literal[0]
    message: CompletionMessage
    logprobs: None
    finish_reason: _FinishReason


class _Completion(BaseModel):
    id: str
    created: int
    model: str


class Completion(_Completion):
    """A whole answer; `usage` is null where the model doesn't count."""

    object: Literal["chat.completion"]
    choices: tuple[CompletionChoice]
    usage: CompletionUsage | None


class ChunkDelta(BaseModel):
    """What comes next: who speaks in the first chunk, text, nothing in the last one."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(BaseModel):
    """The next piece of the answer; the last one says how it ended."""

    index: Literal[0]
    delta: ChunkDelta
    logprobs: None
    finish_reason: _FinishReason | None


class CompletionChunk(_Completion):
    """A piece of an answer. With `include_usage` there is `usage`: null, but in the last chunk, which has no choice."""

    object: Literal["chat.completion.chunk"]
    choices: Annotated[list[ChunkChoice], Field(max_length=1)]
    usage: CompletionUsage | None = Field(default_factory=lambda: None)


class ModelObject(BaseModel):
    """A name by which the model may be asked for."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All names of the model, its own first."""

    object: Literal["list"]
    data: list[ModelObject]
