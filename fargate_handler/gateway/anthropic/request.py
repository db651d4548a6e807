"""Reads the body of `POST /v1/messages`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evenflow.fargate_handler.gateway.anthropic.turns import turns_of, unsupported, wrong
from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.orchestrator.incoming_message import TRANSLATED, WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import LONGEST_USER, MessageTerms
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.anthropic.bodies import (
    MESSAGES_REQUEST,
    WITHOUT_EFFECT,
    GivenTool,
    MessagesRequest,
)
from evenflow.stream_core.protocols.evenflow.messages import parse

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
# (thinking budget in tokens, effort): the effort of all budgets below it.
_EFFORTS = ((5_000, "low"), (10_000, "medium"))
_MOST_EFFORT = "high"


@dataclass(frozen=True, slots=True)
class MessagesCall:
    """A checked request. `thinking`: whether its sender receives the model's reasoning.

    The model is empty until `of_model` if the request names none.
    """

    model: str
    terms: MessageTerms
    request: WholeRequest
    stream: bool
    thinking: bool

    def of_model(self, model: str) -> MessagesCall:
        """The same request for the model `model`."""
        return replace(self, model=model, terms=self.terms.model_copy(update={"model": model}))

    def without_conversation(self) -> MessagesCall:
        """The call without its conversation, which only the model needs."""
        return replace(self, request=replace(self.request, turns=()))


def read_call(body: bytes | bytearray) -> MessagesCall:
    """Read the body of a request.

    Raises:
        InvalidRequest: it is not JSON, a field is wrong, or it requests something that would
            change the answer and is not served.
    """
    request = parse(MESSAGES_REQUEST, body)
    for name, value in (request.model_extra or {}).items():
        if value is None or name in WITHOUT_EFFECT:
            continue
        raise _without_threads() if name == "thread" else unsupported("requests with it", name)
    user = request.metadata.user_id if request.metadata else None
    return MessagesCall(
        model=request.model or "",
        terms=MessageTerms(model=request.model or "", user=_within(user or "", LONGEST_USER)),
        request=WholeRequest(turns_of(request), _options(request), echo=TRANSLATED),
        stream=request.stream,
        thinking=request.thinking is not None and request.thinking.shown,
    )


def _without_threads() -> InvalidRequest:
    """The rejection after which Anthropic's SDKs send the whole conversation by themselves."""
    return InvalidRequest(
        "thread: threads are not stored here; nothing was generated. Send the whole conversation "
        "as `messages`, without `thread`",
        code="unsupported_parameter",
        param="thread",
        details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    )


def _within(user: str, longest: int) -> str:
    if len(user) > longest:
        raise wrong(f"metadata.user_id has more than {longest} characters", "metadata.user_id")
    return user


def _options(request: MessagesRequest) -> ModelOptions:
    return ModelOptions(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=tuple(request.stop_sequences or ()),
        passed=_passed(request),
        **_tool_options(request),
    )


def _passed(request: MessagesRequest) -> dict[str, Any]:
    """The parameters that only the model reads: by OpenAI's names, and `top_k`."""
    passed: dict[str, Any] = {}
    if request.top_k is not None:
        passed["top_k"] = request.top_k
    if (effort := _effort(request)) is not None:
        passed["reasoning_effort"] = effort
    config = request.output_config
    if config is not None and config.format is not None:
        check_json(config.format.wanted, "output_config.format.schema")
        schema = {"name": "answer", "schema": config.format.wanted, "strict": True}
        passed["response_format"] = {"type": "json_schema", "json_schema": schema}
    return passed


def _effort(request: MessagesRequest) -> str | None:
    """The model's effort of reasoning. None: the model's own default."""
    config, thinking = request.output_config, request.thinking
    if config is not None and config.effort is not None:
        return "xhigh" if config.effort == "max" else config.effort
    if thinking is None or thinking.type != "enabled":
        return None
    if thinking.budget_tokens is None:
        raise wrong("thinking.budget_tokens must be there", "thinking.budget_tokens")
    budget = thinking.budget_tokens
    return next((effort for max_budget, effort in _EFFORTS if budget < max_budget), _MOST_EFFORT)


def _tool_options(request: MessagesRequest) -> dict[str, Any]:
    tools = [_tool(tool, f"tools.{place}") for place, tool in enumerate(request.tools or [])]
    choice = request.tool_choice
    if not tools:
        if choice is not None and choice.type not in ("auto", "none"):
            raise wrong("tool_choice is only for a request with tools", "tool_choice")
        return {}
    options: dict[str, Any] = {"tools": tuple(tools)}
    if choice is None:
        return options
    if choice.disable_parallel_tool_use:
        options["parallel_tool_calls"] = False
    if choice.type != "tool":
        return options | {"tool_choice": _CHOICES[choice.type]}
    if choice.name not in {tool["function"]["name"] for tool in tools}:
        raise wrong("tool_choice.name is none of the tools", "tool_choice.name")
    chat_choice = {"type": "function", "function": {"name": choice.name}}
    return options | {"tool_choice": chat_choice}


def _tool(tool: GivenTool, where: str) -> dict[str, Any]:
    if tool.type not in (None, "custom"):
        raise unsupported("tools that Anthropic runs, or only its models know,", f"{where}.type")
    if tool.input_schema is None:
        raise wrong(f"{where}.input_schema must be there", f"{where}.input_schema")
    check_json(tool.input_schema, f"{where}.input_schema")
    function = {"name": tool.name, "description": tool.description} | {
        "parameters": tool.input_schema,
        "strict": tool.strict,
    }
    return {
        "type": "function",
        "function": {name: value for name, value in function.items() if value is not None},
    }
