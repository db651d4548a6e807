"""What a request says of tools: those that the model may call, and the calls of the conversation."""

from __future__ import annotations

from typing import Any

import orjson

from fargate_handler.gateway.openai.parameters import check_parameters, without
from stream_core.completion_bodies import CompletionRequest, OfferedTool, RequestMessage
from stream_core.conversation import ToolCall
from stream_core.errors import InvalidRequest

_CHOICES = ("none", "auto", "required")


def tool_options(request: CompletionRequest) -> dict[str, Any]:
    """`ModelOptions` of a request; none where it has no tools.

    Raises:
        InvalidRequest: one of the tools is none, or the choice isn't one of them.
    """
    tools = [_tool(tool, f"tools.{place}.") for place, tool in enumerate(request.tools or [])]
    choice = request.tool_choice
    if not tools:
        if choice not in (None, "none", "auto"):
            raise _wrong("tool_choice is only for a request with tools", "tool_choice")
        return {}
    if isinstance(choice, str):
        if choice not in _CHOICES:
            raise _wrong(f"tool_choice must be one of {', '.join(_CHOICES)}, or name a function", "tool_choice")
    elif choice is not None:
        _check_named(choice, {tool["function"]["name"] for tool in tools})
    return {"tools": tuple(tools), "tool_choice": choice, "parallel_tool_calls": request.parallel_tool_calls}


def made_calls(message: RequestMessage, where: str) -> tuple[ToolCall, ...]:
    """The calls of an assistant's message.

    Args:
        where: the message's place in the request, with a dot at its end.

    Raises:
        InvalidRequest: calls, or the id of one, in a message that can't have them; or an unknown parameter.
    """
    if message.tool_calls and message.role != "assistant":
        raise _wrong(f"{where}tool_calls is only for messages of the role assistant", f"{where}tool_calls")
    if (message.tool_call_id is None) is (message.role == "tool"):
        raise _wrong(
            f"{where}tool_call_id is for messages of the role tool, each of which needs it", f"{where}tool_call_id"
        )
    calls = message.tool_calls or []
    for place, call in enumerate(calls):
        # What clients add to an answer's calls, and send back.
        within = f"{where}tool_calls.{place}."
        check_parameters(without(call.model_extra, "index"), {}, within)
        check_parameters(without(call.function.model_extra, "parsed_arguments"), {}, f"{within}function.")
    return tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in calls)


def check_calls_answered(messages: list[RequestMessage]) -> None:
    """Whether each call of the conversation is answered by a tool's message behind it, and each of those answers one.

    Raises:
        InvalidRequest: one isn't.
    """
    called, unanswered = "", set[str]()
    for place, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in unanswered:
                raise _wrong(
                    f"messages.{place}.tool_call_id must be a call of the assistant's message before, not answered yet",
                    f"messages.{place}.tool_call_id",
                )
            unanswered.remove(message.tool_call_id)
            continue
        _check_none_left(unanswered, called)
        if message.tool_calls:
            called = f"messages.{place}.tool_calls"
            unanswered = {call.id for call in message.tool_calls}
            if len(unanswered) < len(message.tool_calls):
                raise _wrong(f"{called} must have different ids", called)
    _check_none_left(unanswered, called)


def _check_none_left(unanswered: set[str], called: str) -> None:
    if unanswered:
        missing = ", ".join(sorted(unanswered))[:100]
        raise _wrong(
            f"{called} must be followed by messages of the role tool that answer each of them; missing: {missing}",
            called,
        )


def _tool(tool: OfferedTool, where: str) -> dict[str, Any]:
    check_parameters(tool.model_extra, {}, where)
    check_parameters(tool.function.model_extra, {}, f"{where}function.")
    if not _is_json(tool.function.parameters):
        # Python reads more than there is in JSON, as models' servers take it.
        raise _wrong(f"{where}function.parameters has a number that JSON can't have", f"{where}function.parameters")
    return tool.model_dump(exclude_none=True)


def _is_json(value: object) -> bool:
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except TypeError:
        return False


def _check_named(choice: object, names: set[str]) -> None:
    match choice:
        case {"type": "function", "function": {"name": str(name), **inner}, **outer} if not (inner or outer):
            if name not in names:
                raise _wrong(f"tool_choice names {name[:64]!r}, which is none of the tools", "tool_choice")
        case _:
            raise _wrong('tool_choice must be a text, or {"type": "function", "function": {"name": …}}', "tool_choice")


def _wrong(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)
