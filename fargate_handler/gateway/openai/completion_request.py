"""The body of `POST /v1/chat/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fargate_handler.gateway.openai.parameters import (
    NEUTRAL,
    NEUTRAL_IN_MESSAGES,
    NEUTRAL_IN_STREAM_OPTIONS,
    check_parameters,
)
from fargate_handler.orchestrator.whole_request import WholeRequest
from fargate_handler.token_sources.port import ModelOptions
from stream_core.conversation import Turn
from stream_core.errors import InvalidRequest
from stream_core.messages import parse

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_MOST_STOPS = 4
_INT64 = 2**63

_Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
_Stop = Annotated[str, Field(min_length=1)]


class _Given(BaseModel):
    # What isn't named here is looked at by name (`parameters`): nothing is ignored in silence.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class ContentPart(_Given):
    """A part of a message; only text is taken."""

    type: str
    text: str | None = None


class RequestMessage(_Given):
    """A message of the conversation."""

    role: str
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


@dataclass(frozen=True, slots=True)
class CompletionCall:
    """A request that was understood. `timeout_ms`: None where it doesn't say."""

    model: str
    asked: WholeRequest
    stream: bool
    include_usage: bool
    timeout_ms: int | None


def read_call(body: bytes) -> CompletionCall:
    """Understand the body of a request.

    Raises:
        InvalidRequest: it isn't JSON, a field is wrong, or it asks for what isn't there.
    """
    request = parse(COMPLETION_REQUEST, body)
    check_parameters(request.model_extra, NEUTRAL)
    if request.n not in (None, 1):
        raise _unsupported("n must be 1: one answer a request", "n")
    options = request.stream_options
    if options is not None:
        if not request.stream:
            raise _unsupported("stream_options is only for a request with stream", "stream_options")
        check_parameters(options.model_extra, NEUTRAL_IN_STREAM_OPTIONS, "stream_options.")
    return CompletionCall(
        model=request.model,
        asked=WholeRequest(_turns(request.messages), _options(request)),
        stream=bool(request.stream),
        include_usage=bool(options and options.include_usage),
        timeout_ms=request.timeout_ms,
    )


def _turns(messages: list[RequestMessage]) -> tuple[Turn, ...]:
    turns = []
    for place, message in enumerate(messages):
        where = f"messages.{place}."
        if message.role not in _ROLES:
            raise _unsupported(
                f"{where}role must be one of {', '.join(_ROLES)}: tools are not supported here", f"{where}role"
            )
        check_parameters(message.model_extra, NEUTRAL_IN_MESSAGES, where)
        turns.append(Turn(_ROLES[message.role], _text(message.content, f"{where}content")))
    return tuple(turns)


def _text(content: str | list[ContentPart] | None, where: str) -> str:
    if isinstance(content, str):
        return content
    if not content:
        raise InvalidRequest(f"{where} must be text; nothing was generated", code="invalid_field", param=where)
    texts = []
    for place, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise _unsupported(
                f"{where}.{place} must be a part of type text: only text is taken here", f"{where}.{place}"
            )
        texts.append(part.text)
    return "".join(texts)


def _options(request: CompletionRequest) -> ModelOptions:
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise _unsupported("max_tokens and max_completion_tokens say the same: give one of them", "max_tokens")
    stop = request.stop or ()
    return ModelOptions(
        max_tokens=request.max_tokens,
        max_completion_tokens=request.max_completion_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=request.seed,
    )


def _unsupported(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="unsupported_value", param=param)
