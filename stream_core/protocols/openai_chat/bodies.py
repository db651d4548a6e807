"""The bodies of `/v1`, OpenAI's API, as typed models. The OpenAPI document is made from them.

Answers are not built from these models: `completion_objects` writes their bytes, and a test
compares the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Tag, TypeAdapter, WithJsonSchema

from evenflow.stream_core.base.agents import LONGEST_USER, Metadata, ServiceClass
from evenflow.stream_core.http.http_contract import LIST, TEXT, TEXT_OR_LIST
from evenflow.stream_core.log.entries import MOST_CALLS, MOST_CHOICES

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "function",
}
"""The role in a message → the role for the model."""

SERVICE_TIER = "service_tier"
_FLEX = "flex"

_INT64 = 2**63


def _whole(value: object) -> object:
    """A number without its point: `10.0` is an integer in JSON Schema, as for models' servers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The model's server judges these values, but for the length, which budgets are reserved by. The
# bounds are those of the formats that carry them there.
_Integer = Annotated[int, Field(ge=-_INT64, lt=_INT64), BeforeValidator(_whole)]
_Tokens = Annotated[int, Field(ge=1, lt=_INT64), BeforeValidator(_whole)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Stop = Annotated[str, Field(min_length=1)]
_Stops = Annotated[Annotated[_Stop, Tag(TEXT)] | Annotated[list[_Stop], Tag(LIST)], TEXT_OR_LIST]
_FunctionName = Annotated[str, Field(min_length=1, max_length=256)]


def class_of_tier(tier: object) -> ServiceClass | None:
    """The service class of a request's `service_tier`. None: its tenant's."""
    return ServiceClass.BATCH if tier == _FLEX else None


class _ChatModel(BaseModel):
    # Fields that are not named here go to the model unchanged.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class ContentPart(_ChatModel):
    """A part of a message: text, or another input of the model, such as an image."""

    type: str
    text: str | None = None


_Content = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[ContentPart], Tag(LIST)], TEXT_OR_LIST
]


class CalledFunction(_ChatModel):
    """The function that the model called, with the arguments that it wrote."""

    name: _FunctionName
    arguments: str


class RequestToolCall(_ChatModel):
    """A call in an assistant's message."""

    id: Annotated[str, Field(min_length=1)]
    type: str = "function"
    function: CalledFunction | None = None


class RequestMessage(_ChatModel):
    """A message of the conversation.

    An assistant's may have `tool_calls`. A tool's answers the one named by `tool_call_id`. Further
    fields, such as `name`, go to the model unchanged.
    """

    role: Annotated[str, Field(json_schema_extra={"enum": list(ROLES)})]
    content: _Content | None = None
    tool_calls: Annotated[list[RequestToolCall], Field(max_length=MOST_CALLS)] | None = None
    tool_call_id: Annotated[str, Field(min_length=1)] | None = None

    @property
    def text(self) -> str:
        """Its text. Other parts of its content add nothing."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text or "" for part in self.content if part.type == "text")


class OfferedFunction(_ChatModel):
    """A function that the model may call. `parameters` is a JSON schema of its arguments."""

    name: _FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class OfferedTool(_ChatModel):
    """A tool that the model may call. Types other than `function` depend on the model's server."""

    type: str
    function: OfferedFunction | None = None


_NAMED_CHOICE = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
    "required": ["type", "function"],
}
_OTHER_CHOICE = {
    "type": "object",
    "properties": {"type": {"type": "string", "not": {"const": "function"}}},
    "required": ["type"],
}
# Checked by hand: pydantic's error for a union names the union's parts, which are no parameters.
ToolChoice = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "string"}, _NAMED_CHOICE, _OTHER_CHOICE, {"type": "null"}]}),
]


class StreamOptions(_ChatModel):
    """Options of a stream."""

    include_usage: bool | None = None


class CompletionRequest(_ChatModel):
    """The parameters that Evenflow reads. All others go to the model unchanged.

    Without `model` it is the only one, else the first that the sender may use.
    `timeout_ms` is Evenflow's own: the most milliseconds that the whole answer may take. `user` and
    `metadata` go to the model's server as headers.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    messages: Annotated[list[RequestMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    stop: _Stops | None = None
    seed: _Integer | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    timeout_ms: Annotated[int, Field(ge=1)] | None = None
    user: Annotated[str, Field(max_length=LONGEST_USER)] | None = None
    metadata: Metadata | None = None


COMPLETION_REQUEST: TypeAdapter[CompletionRequest] = TypeAdapter(CompletionRequest)

_FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class PromptTokens(BaseModel):
    """The number of the prompt's tokens from the model's cache."""

    model_config = ConfigDict(extra="allow")

    cached_tokens: int | None = None


class CompletionTokens(BaseModel):
    """The number of the answer's tokens for reasoning."""

    model_config = ConfigDict(extra="allow")

    reasoning_tokens: int | None = None


class CompletionUsage(BaseModel):
    """Counts of the model's tokens. The details are there if the model's server sends them.

    Further fields, such as `cost`, are the server's.
    """

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens | None = None
    completion_tokens_details: CompletionTokens | None = None


class Logprobs(BaseModel):
    """The log probabilities of tokens, as the model's server sends them."""

    content: list[dict[str, Any]] | None
    refusal: list[dict[str, Any]] | None


class MessageFunction(BaseModel):
    """A function that the model called. `arguments` is the text that it wrote, JSON as a rule."""

    name: str
    arguments: str


class MessageCustom(BaseModel):
    """A custom tool that the model called. `input` is the text that it wrote."""

    name: str
    input: str


class MessageToolCall(BaseModel):
    """A call by the model, with `function` or `custom`. `type` is the same, or the server's own.

    Further fields, such as `extra_content`, are what the model's server gave and needs back.
    """

    model_config = ConfigDict(extra="allow")

    id: str
    type: str
    function: MessageFunction | None = None
    custom: MessageCustom | None = None


class UrlCitation(BaseModel):
    """A source. The indexes are 0 where the model doesn't say which characters it is for."""

    url: str
    title: str
    start_index: int
    end_index: int


class Annotation(BaseModel):
    """A reference of a text."""

    type: Literal["url_citation"]
    url_citation: UrlCitation


class _Asides(BaseModel):
    # Further fields are what the model's server gave and needs back.
    model_config = ConfigDict(extra="allow")

    # Reasoning has the name that the model's server uses.
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    annotations: list[Annotation] | None = None


class CompletionMessage(_Asides):
    """The answer, its reasoning and sources. `content` is null for only calls or a refusal."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    tool_calls: list[MessageToolCall] | None = None


class CompletionChoice(BaseModel):
    """One of the `n` answers. Further fields are the server's."""

    model_config = ConfigDict(extra="allow")

    index: Annotated[int, Field(ge=0, lt=MOST_CHOICES)]
    message: CompletionMessage
    logprobs: Logprobs | None
    finish_reason: _FinishReason


class _CompletionBase(BaseModel):
    # Further fields, such as `system_fingerprint`, are the server's.
    model_config = ConfigDict(extra="allow")

    id: str
    created: int
    model: str


class Completion(_CompletionBase):
    """A whole answer. Without `usage` if the model doesn't count."""

    object: Literal["chat.completion"]
    choices: Annotated[list[CompletionChoice], Field(min_length=1)]
    usage: CompletionUsage | None = None


class ChunkFunction(BaseModel):
    """A part of a call: the name at its beginning, and more of its arguments."""

    name: str | None = None
    arguments: str


class ChunkCustom(BaseModel):
    """A part of a call of a custom tool: the name at its beginning, and more of its input."""

    name: str | None = None
    input: str


class ChunkToolCall(BaseModel):
    """More of the call `index`. `id`, `type` and the name are there at its beginning."""

    model_config = ConfigDict(extra="allow")

    index: Annotated[int, Field(ge=0, lt=MOST_CALLS)]
    id: str | None = None
    type: str | None = None
    function: ChunkFunction | None = None
    custom: ChunkCustom | None = None


class ChunkDelta(_Asides):
    """The new content of a choice: text, reasoning, a refusal or a call; last its sources.

    `role` is there where a choice begins. In the first chunk `content` is null if the request has
    tools.
    """

    role: Literal["assistant"] | None = None
    content: str | None = Field(default_factory=lambda: None)
    refusal: str | None = None
    tool_calls: list[ChunkToolCall] | None = None


class ChunkChoice(BaseModel):
    """The next piece of one of the answers. The last piece has the answer's finish reason.

    Further fields are the server's.
    """

    model_config = ConfigDict(extra="allow")

    index: Annotated[int, Field(ge=0, lt=MOST_CHOICES)]
    delta: ChunkDelta
    logprobs: Logprobs | None
    finish_reason: _FinishReason | None


class CompletionChunk(_CompletionBase):
    """A piece of an answer, or of several.

    With `include_usage` every chunk has `usage`: null, except in the last one, which has no choice.
    """

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    usage: CompletionUsage | None = Field(default_factory=lambda: None)


class ModelObject(BaseModel):
    """A name by which a client may ask for the model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All names of the model, its own first."""

    object: Literal["list"]
    data: list[ModelObject]
