"""What the body of `POST /v1/chat/completions` asks."""

from __future__ import annotations

from dataclasses import dataclass

from fargate_handler.gateway.openai.parameters import (
    NEUTRAL,
    NEUTRAL_IN_MESSAGES,
    NEUTRAL_IN_STREAM_OPTIONS,
    check_parameters,
    without,
)
from fargate_handler.gateway.openai.tool_parameters import check_calls_answered, made_calls, tool_options
from fargate_handler.orchestrator.whole_request import WholeRequest
from fargate_handler.token_sources.port import ModelOptions
from stream_core.completion_bodies import COMPLETION_REQUEST, ROLES, CompletionRequest, ContentPart, RequestMessage
from stream_core.conversation import Turn
from stream_core.errors import InvalidRequest
from stream_core.message_terms import MessageTerms
from stream_core.messages import parse


@dataclass(frozen=True, slots=True)
class CompletionCall:
    """A request that was understood. `timeout_ms`: None where it doesn't say; `terms`: for whom it is, and by which model."""

    model: str
    terms: MessageTerms
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
        terms=MessageTerms(model=request.model, user=request.user or "", metadata=request.metadata or {}),
        asked=WholeRequest(_turns(request.messages), _options(request)),
        stream=bool(request.stream),
        include_usage=bool(options and options.include_usage),
        timeout_ms=request.timeout_ms,
    )


def _turns(messages: list[RequestMessage]) -> tuple[Turn, ...]:
    turns = []
    for place, message in enumerate(messages):
        where = f"messages.{place}."
        if message.role not in ROLES:
            raise _unsupported(f"{where}role must be one of {', '.join(ROLES)}", f"{where}role")
        # A tool's message has a name in much code; whose it is follows from the call that it answers.
        ignored = ("name",) if message.role == "tool" else ()
        check_parameters(without(message.model_extra, *ignored), NEUTRAL_IN_MESSAGES, where)
        calls = made_calls(message, where)
        text = "" if calls and not message.content else _text(message.content, f"{where}content")
        turns.append(Turn(ROLES[message.role], text, calls, message.tool_call_id or ""))
    check_calls_answered(messages)
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
        **tool_options(request),
    )


def _unsupported(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="unsupported_value", param=param)
