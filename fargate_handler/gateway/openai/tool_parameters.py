"""What a request says of tools: those that the model may call, and the calls of the conversation."""

from __future__ import annotations

from typing import Any

from fargate_handler.gateway.openai.passed_json import check_json
from stream_core.completion_bodies import CompletionRequest, OfferedTool, RequestMessage
from stream_core.conversation import ToolCall
from stream_core.errors import InvalidRequest

_WITHOUT_TOOLS = (None, "none", "auto")


def tool_options(request: CompletionRequest) -> dict[str, Any]:
    """`ModelOptions` of a request; none where it has no tools.

    Raises:
        InvalidRequest: one of the tools is none, or the choice isn't one of them.
    """
    tools = [_tool(tool, f"tools.{place}.") for place, tool in enumerate(request.tools or [])]
    choice = request.tool_choice
    if not tools:
        if choice not in _WITHOUT_TOOLS:
            raise _wrong("tool_choice is only for a request with tools", "tool_choice")
        return {}
    names = {tool["function"]["name"] for tool in tools if tool["type"] == "function"}
    _check_choice(choice, names)
    return {"tools": tuple(tools), "tool_choice": choice, "parallel_tool_calls": request.parallel_tool_calls}


def check_call_fields(message: RequestMessage, where: str) -> None:
    """Whether a message has calls, or the id of one, where it can have them.

    Args:
        where: the message's place in the request, with a dot at its end.

    Raises:
        InvalidRequest: it doesn't.
    """
    if message.tool_calls and message.role != "assistant":
        raise _wrong(f"{where}tool_calls is only for messages of the role assistant", f"{where}tool_calls")
    if (message.tool_call_id is None) is (message.role == "tool"):
        raise _wrong(
            f"{where}tool_call_id is for messages of the role tool, each of which needs it", f"{where}tool_call_id"
        )
    for place, call in enumerate(message.tool_calls or []):
        if call.type == "function" and call.function is None:
            missing = f"{where}tool_calls.{place}.function"
            raise _wrong(f"{missing} must be there in a call of type function", missing)


def made_calls(message: RequestMessage) -> tuple[ToolCall, ...]:
    """The calls of an assistant's message; none where one of them is of another type than `function`.

    What else a call has is what clients add to an answer's calls, and send back.
    """
    calls = message.tool_calls or []
    if any(call.type != "function" for call in calls):
        return ()
    return tuple(
        ToolCall(call.id, call.function.name, call.function.arguments) for call in calls if call.function is not None
    )


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
    if tool.type == "function" and tool.function is None:
        raise _wrong(f"{where}function must be there in a tool of type function", f"{where}function")
    given = tool.model_dump(exclude_unset=True)
    check_json(given, where.removesuffix("."))
    return given


def _check_choice(choice: object, names: set[str]) -> None:
    match choice:
        case None | str():
            pass
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in names:
                raise _wrong(f"tool_choice names {name[:64]!r}, which is none of the tools", "tool_choice")
        case {"type": str(kind)} if kind != "function":
            check_json(choice, "tool_choice")
        case _:
            raise _wrong('tool_choice must be a text, or {"type": "function", "function": {"name": …}}', "tool_choice")


def _wrong(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)
