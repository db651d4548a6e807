"""Reads a request's messages as turns, with their calls, and its tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.bodies.returned import further_fields
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.openai_chat.bodies import (
    ROLES,
    ContentPart,
    OfferedTool,
    RequestMessage,
    RequestToolCall,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts

# Fields of answers, which a model is not given. Clients send an answer's message back as it was.
_OF_ANSWERS = frozenset({"annotations", "images", "parsed", "provider_specific_fields"})
# Fields that clients add to the calls that they received.
_OF_CLIENTS = frozenset({"index", "parsed_arguments"})
_PLAIN = {"type", "text"}
_WITHOUT_TOOLS = (None, "none", "auto")


def turn_of(message: RequestMessage, where: str) -> Turn:
    """Read one message.

    Args:
        where: its path in the request, with a dot at its end.

    Raises:
        InvalidRequest: its role is unknown, it is empty, or its calls are wrong.
    """
    if message.role not in ROLES:
        raise InvalidRequest(
            f"{where}role must be one of {', '.join(ROLES)}; nothing was generated",
            code="unsupported_value",
            param=f"{where}role",
        )
    check_call_fields(message, where)
    calls = made_calls(message, where)
    extra = further_fields(message.model_extra or {}, _OF_ANSWERS, where)
    if message.tool_calls and not calls:
        extra["tool_calls"] = [call.model_dump(exclude_unset=True) for call in message.tool_calls]
        check_json(extra["tool_calls"], f"{where}tool_calls")
    if message.tool_calls and message.content == "":
        extra["content"] = ""  # templates of open models differ: some take no null, some no text
    text, parts = _content(message, f"{where}content")
    return Turn(ROLES[message.role], text, calls, message.tool_call_id or "", parts, extra)


def _content(message: RequestMessage, where: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text, and the parts if they are more than text."""
    content = message.content
    if isinstance(content, str):
        return content, ()
    if not content:
        # An assistant's message may be only calls, a refusal or audio.
        if message.role == "assistant" and (message.tool_calls or message.model_extra):
            return "", ()
        raise InvalidRequest(
            f"{where} must be text; nothing was generated", code="invalid_field", param=where
        )
    parts = tuple(_part(part, f"{where}.{place}") for place, part in enumerate(content))
    text = text_of_parts(parts)
    return text, () if all(
        part["type"] == "text" and part.keys() == _PLAIN for part in parts
    ) else parts


def _part(part: ContentPart, where: str) -> dict[str, Any]:
    if part.type == "text" and part.text is None:
        raise InvalidRequest(
            f"{where}.text must be there in a part of type text; nothing was generated",
            code="invalid_field",
            param=f"{where}.text",
        )
    given = part.model_dump(exclude_unset=True)
    check_json(given, where)
    return given


class OffersTools(Protocol):
    """A request that may have tools."""

    @property
    def tools(self) -> Sequence[OfferedTool] | None: ...

    @property
    def tool_choice(self) -> Any: ...

    @property
    def parallel_tool_calls(self) -> bool | None: ...


def tool_options(request: OffersTools) -> dict[str, Any]:
    """The tools of a request, as arguments of `ModelOptions`. Empty if there are none.

    Raises:
        InvalidRequest: a tool is wrong, or the choice is not one of them.
    """
    tools = [_tool(tool, f"tools.{place}.") for place, tool in enumerate(request.tools or [])]
    choice = request.tool_choice
    if not tools:
        if choice not in _WITHOUT_TOOLS:
            raise _wrong("tool_choice is only for a request with tools", "tool_choice")
        return {}
    names = {tool["function"]["name"] for tool in tools if tool["type"] == "function"}
    _check_choice(choice, names)
    return {
        "tools": tuple(tools),
        "tool_choice": choice,
        "parallel_tool_calls": request.parallel_tool_calls,
    }


def check_call_fields(message: RequestMessage, where: str) -> None:
    """Check that only assistants' messages have calls, and each tool's message a call's id.

    Args:
        where: the message's path in the request, with a dot at its end.

    Raises:
        InvalidRequest: a field is missing, or in a wrong message.
    """
    if message.tool_calls and message.role != "assistant":
        raise _wrong(
            f"{where}tool_calls is only for messages of the role assistant", f"{where}tool_calls"
        )
    if (message.tool_call_id is None) is (message.role == "tool"):
        raise _wrong(
            f"{where}tool_call_id is for messages of the role tool, each of which needs it",
            f"{where}tool_call_id",
        )
    for place, call in enumerate(message.tool_calls or []):
        if call.type == "function" and call.function is None:
            missing = f"{where}tool_calls.{place}.function"
            raise _wrong(f"{missing} must be there in a call of type function", missing)


def made_calls(message: RequestMessage, where: str) -> tuple[ToolCall, ...]:
    """The calls in an assistant's message. Empty if one of them is not of the type `function`.

    Further fields of a call, and of its function, come from the model's server.

    Args:
        where: the message's path in the request, with a dot at its end.

    Raises:
        InvalidRequest: a further field has a value that is not valid JSON.
    """
    calls = message.tool_calls or []
    if any(call.type != "function" for call in calls):
        return ()
    return tuple(
        ToolCall(
            call.id,
            call.function.name,
            call.function.arguments,
            _extra_of(call, f"{where}tool_calls.{place}."),
        )
        for place, call in enumerate(calls)
        if call.function is not None
    )


def _extra_of(call: RequestToolCall, where: str) -> dict[str, Any]:
    extra = further_fields(call.model_extra or {}, _OF_CLIENTS, where)
    called = (call.function and call.function.model_extra) or {}
    inner = further_fields(called, _OF_CLIENTS, f"{where}function.")
    return extra | ({"function": inner} if inner else {})


def check_calls_answered(messages: list[RequestMessage]) -> None:
    """Check that tools' messages answer each call once, after it.

    Raises:
        InvalidRequest: a call has no answer, or an answer has no call.
    """
    called, unanswered = "", set[str]()
    for place, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in unanswered:
                raise _wrong(
                    f"messages.{place}.tool_call_id must be an unanswered call of the assistant's "
                    "message before",
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
            f"{called} must be followed by messages of the role tool that answer each of them; "
            f"missing: {missing}",
            called,
        )


def _tool(tool: OfferedTool, where: str) -> dict[str, Any]:
    if tool.type == "function" and tool.function is None:
        raise _wrong(
            f"{where}function must be there in a tool of type function", f"{where}function"
        )
    given = tool.model_dump(exclude_unset=True)
    check_json(given, where.removesuffix("."))
    return given


def _check_choice(choice: object, names: set[str]) -> None:
    match choice:
        case None | str():
            pass
        case {"type": "function", "function": {"name": str(name)}}:
            if name not in names:
                raise _wrong(
                    f"tool_choice names {name[:64]!r}, which is none of the tools", "tool_choice"
                )
        case {"type": str(kind)} if kind != "function":
            check_json(choice, "tool_choice")
        case _:
            raise _wrong(
                'tool_choice must be a text, or {"type": "function", "function": {"name": …}}',
                "tool_choice",
            )


def _wrong(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)
