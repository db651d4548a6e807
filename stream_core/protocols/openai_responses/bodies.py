"""The bodies of OpenAI's Responses API as typed models. The OpenAPI document is made from them.

Answers are not built from these models: `encoder.py` and `whole_answer.py` make them, and a test
compares the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from evenflow.stream_core.base.agents import LONGEST_USER, Metadata

_INT64 = 2**63
_Number = Annotated[float, Field(allow_inf_nan=False)]
_TEXT, _LIST = "<text>", "<list>"


def _kind(value: object) -> str | None:
    # Without this tag pydantic reports a wrong list as "not a string".
    return _TEXT if isinstance(value, str) else _LIST if isinstance(value, list) else None


_Input = Annotated[
    Annotated[str, Tag(_TEXT)] | Annotated[list[dict[str, Any]], Tag(_LIST)],
    Discriminator(
        _kind,
        custom_error_type="text_or_list",
        custom_error_message="Input should be a string or a list",
    ),
]


class _ResponsesModel(BaseModel):
    # Fields that are not named here go to the model unchanged, or are refused by name.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class ReasoningConfig(_ResponsesModel):
    """How the model reasons. A summary is the reasoning that the model's server sends."""

    effort: str | None = None
    summary: str | None = None


class TextConfig(_ResponsesModel):
    """The form of the text. `format` is `text`, `json_object` or `json_schema`."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponseRequest(_ResponsesModel):
    """The parameters that Evenflow reads. Others go to the model unchanged.

    `timeout_ms` is Evenflow's own: the most milliseconds that the whole answer may take.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    input: _Input = Field(default_factory=list)
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    background: bool | None = None
    store: bool | None = None
    include: list[str] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, lt=_INT64)] | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningConfig | None = None
    text: TextConfig | None = None
    user: Annotated[str, Field(max_length=LONGEST_USER)] | None = None
    metadata: Metadata | None = None
    timeout_ms: Annotated[int, Field(ge=1)] | None = None


RESPONSE_REQUEST: TypeAdapter[ResponseRequest] = TypeAdapter(ResponseRequest)


class ResponseErrorBody(BaseModel):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(BaseModel):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class InputTokens(BaseModel):
    """The number of the input's tokens from the model's cache. Cache writes are unknown."""

    cached_tokens: int
    cache_write_tokens: Literal[0]


class OutputTokens(BaseModel):
    """The number of the output's tokens for reasoning."""

    reasoning_tokens: int


class ResponseTokens(BaseModel):
    """Counts of the model's tokens."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ResponseBody(BaseModel):
    """A response: the parameters of its request, and what there is of its answer."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    error: ResponseErrorBody | None
    incomplete_details: IncompleteDetails | None
    output: list[dict[str, Any]]
    usage: ResponseTokens | None
    instructions: str | None
    previous_response_id: str | None
    parallel_tool_calls: bool
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]


class ResponseEventBody(BaseModel):
    """An event of a response's stream. Its further members depend on `type`."""

    model_config = ConfigDict(extra="allow")

    type: str
    sequence_number: int


class DeletedResponse(BaseModel):
    """A response that is deleted."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class InputItemList(BaseModel):
    """The items of a request, with what its earlier responses bring."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
