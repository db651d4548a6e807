"""Reads the body of `POST /v1/chat/completions`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evenflow.fargate_handler.gateway.bodies.answer_length import take_length
from evenflow.fargate_handler.gateway.bodies.carried_parameters import check_carried
from evenflow.fargate_handler.gateway.bodies.chat_messages import (
    check_calls_answered,
    tool_options,
    turn_of,
)
from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.protocols.openai_chat.bodies import (
    COMPLETION_REQUEST,
    SERVICE_TIER,
    CompletionRequest,
    class_of_tier,
)


@dataclass(frozen=True, slots=True)
class CompletionCall:
    """A checked request. `timeout_ms` may be None. `terms` has the model and the user.

    The model is empty until `of_model` if the request names none.
    """

    model: str
    terms: MessageTerms
    request: WholeRequest
    stream: bool
    include_usage: bool
    timeout_ms: int | None

    def of_model(self, model: str) -> CompletionCall:
        """The same request for the model `model`."""
        return replace(self, model=model, terms=self.terms.model_copy(update={"model": model}))

    def without_conversation(self) -> CompletionCall:
        """The call without its conversation, which only the model needs."""
        return replace(self, request=replace(self.request, turns=()))


def read_call(body: bytes | bytearray) -> CompletionCall:
    """Read the body of a request.

    Only the parameters that Evenflow itself needs are checked. The model's server checks others.

    Raises:
        InvalidRequest: it is not JSON, or a field is wrong.
    """
    request = parse(COMPLETION_REQUEST, body)
    turns = tuple(
        turn_of(message, f"messages.{place}.") for place, message in enumerate(request.messages)
    )
    check_calls_answered(request.messages)
    return CompletionCall(
        model=request.model or "",
        terms=MessageTerms(
            model=request.model or "",
            user=request.user or "",
            metadata=request.metadata or {},
            service_class=class_of_tier((request.model_extra or {}).get(SERVICE_TIER)),
        ),
        request=WholeRequest(turns, _options(request)),
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        timeout_ms=request.timeout_ms,
    )


def _options(request: CompletionRequest) -> ModelOptions:
    stop, passed = request.stop or (), _passed(request)
    names = {
        "max_tokens": request.max_tokens,
        "max_completion_tokens": request.max_completion_tokens,
    }
    longest = take_length(passed, names)
    # Some models support only one of these two. All other names become the more common one.
    is_newer = request.max_completion_tokens is not None
    return ModelOptions(
        max_tokens=None if is_newer else longest,
        max_completion_tokens=longest if is_newer else None,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=request.seed,
        passed=passed,
        **tool_options(request),
    )


def _passed(request: CompletionRequest) -> dict[str, Any]:
    """The parameters that only the model reads."""
    passed = {
        name: value for name, value in (request.model_extra or {}).items() if value is not None
    }
    fields = {"n": request.n, "user": request.user, "metadata": request.metadata}
    passed |= {name: value for name, value in fields.items() if value is not None}
    if request.stream_options is not None:
        if not request.stream:
            raise _unsupported("stream_options is only for a request with stream", "stream_options")
        if request.stream_options.model_extra:
            passed["stream_options"] = dict(request.stream_options.model_extra)
    check_carried(passed)
    for name, value in passed.items():
        check_json(value, name)
    return passed


def _unsupported(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="unsupported_value", param=param)
