"""The bodies of `POST /v1/messages`, Anthropic's API. The OpenAPI document is made from them.

Answers are not built from these models: `anthropic_messages` writes their bytes, and a test
compares the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Tag, TypeAdapter

from evenflow.stream_core.http.http_contract import LIST, TEXT, TEXT_OR_LIST

LONGEST_TOOL_NAME = 128
_Number = Annotated[float, Field(ge=0, le=1)]


class _AnthropicModel(BaseModel):
    # Fields that are not named here are left out: `cache_control` and the like.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class GivenBlock(BaseModel):
    """A block of a message. Its further fields depend on `type`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    type: str


_Content = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[GivenBlock], Tag(LIST)], TEXT_OR_LIST
]


class GivenMessage(_AnthropicModel):
    """A message of the conversation. It is one text, or blocks."""

    role: Literal["user", "assistant", "system"]
    content: _Content


class GivenTool(_AnthropicModel):
    """A tool of the client's own. `input_schema` is a JSON schema of its arguments.

    Tools with another `type` are run by Anthropic, or supported only by its models. They are
    rejected.
    """

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_TOOL_NAME)]
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class GivenToolChoice(_AnthropicModel):
    """Whether the model calls tools. With `tool`, `name` is the one that it calls."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(_AnthropicModel):
    """Whether the answer has the model's thinking. `budget_tokens` is the most tokens of it."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None

    @property
    def shown(self) -> bool:
        """Whether it is sent to the client."""
        return self.type != "disabled" and self.display != "omitted"


class OutputFormat(_AnthropicModel):
    """The form of the answer."""

    type: Literal["json_schema"]
    # `schema` is a name of pydantic's.
    wanted: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(_AnthropicModel):
    """The model's effort, and the form of its answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class MessageMetadata(_AnthropicModel):
    """The user of the request."""

    user_id: str | None = None


class MessagesRequest(BaseModel):
    """The parameters that are read. docs/protocol.md lists the others."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=2**63)]
    messages: Annotated[list[GivenMessage], Field(min_length=1)]
    system: _Content | None = None
    stream: bool = False
    stop_sequences: list[Annotated[str, Field(min_length=1)]] | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    tools: list[GivenTool] | None = None
    tool_choice: GivenToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    metadata: MessageMetadata | None = None


MESSAGES_REQUEST: TypeAdapter[MessagesRequest] = TypeAdapter(MessagesRequest)

WITHOUT_EFFECT = frozenset(
    {"cache_control", "context_management", "service_tier", "speed", "diagnostics"}
)
"""Parameters that don't change the answer here: they are left out."""


class MessageUsage(BaseModel):
    """Counts of the model's tokens, 0 where it doesn't count. Those read from its cache are apart.

    In `message_start` nothing is counted yet; `message_delta` has the counts.
    """

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int | None = None
    output_tokens_details: dict[str, int] | None = None


class AnswerCitation(BaseModel):
    """A source of a text, as the model's server sends it."""

    type: Literal["web_search_result_location"]
    url: str
    title: str | None
    cited_text: str
    encrypted_index: str


class AnswerBlock(BaseModel):
    """A block of the answer: `text`, `thinking` with its `signature`, or a call of a tool.

    `redacted_thinking` is what only the model's server reads. Further fields of the others are what
    it needs back, too.
    """

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "thinking", "redacted_thinking", "tool_use"]
    text: str | None = None
    citations: list[AnswerCitation] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class AnswerMessage(BaseModel):
    """The whole answer. In `message_start` it has no content and no `stop_reason` yet."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: Literal["end_turn", "max_tokens", "tool_use", "refusal"] | None = Field(
        default_factory=lambda: None
    )
    stop_sequence: str | None = Field(default_factory=lambda: None)
    usage: MessageUsage


class MessageStart(BaseModel):
    """The answer begins."""

    type: Literal["message_start"]
    message: AnswerMessage


class ContentBlockStart(BaseModel):
    """The block `index` begins. It is empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: AnswerBlock


class BlockDelta(BaseModel):
    """More of a block, of the kind `type`."""

    type: Literal[
        "text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"
    ]
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: AnswerCitation | None = None


class ContentBlockDelta(BaseModel):
    """More of the block `index`."""

    type: Literal["content_block_delta"]
    index: int
    delta: BlockDelta


class ContentBlockStop(BaseModel):
    """The block `index` ends."""

    type: Literal["content_block_stop"]
    index: int


class StopDelta(BaseModel):
    """Why the answer ended. A stop sequence counts as `end_turn`, since it is unknown."""

    stop_reason: Literal["end_turn", "max_tokens", "tool_use", "refusal"]
    stop_sequence: str | None = Field(default_factory=lambda: None)


class MessageDelta(BaseModel):
    """How the answer ended, and its counts."""

    type: Literal["message_delta"]
    delta: StopDelta
    usage: MessageUsage


class MessageStop(BaseModel):
    """The answer is over."""

    type: Literal["message_stop"]


class MessagePing(BaseModel):
    """The server is still there."""

    type: Literal["ping"]


class AnthropicErrorObject(BaseModel):
    """An error. `code` and `param` are those of all errors here. `details` tell Anthropic's
    SDKs what to leave out.
    """

    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "timeout_error",
        "overloaded_error",
    ]
    message: str
    code: str
    param: str | None = None
    details: dict[str, Any] | None = None


class AnthropicError(BaseModel):
    """The body of an error of this API, and the event that ends a stream with one."""

    type: Literal["error"]
    error: AnthropicErrorObject
    request_id: str
