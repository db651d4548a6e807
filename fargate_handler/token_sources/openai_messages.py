"""A conversation as the messages of OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stream_core.conversation import ToolCall, Turn


def openai_message(turn: Turn) -> dict[str, Any]:
    """One turn; its parts and further fields as they came."""
    message: dict[str, Any] = {"role": turn.role, "content": openai_content(turn)}
    if turn.tool_calls:
        message["tool_calls"] = openai_calls(turn.tool_calls)
    if turn.role == "tool":
        message["tool_call_id"] = turn.tool_call_id
    return message | turn.extra


def openai_content(turn: Turn) -> str | list[dict[str, Any]] | None:
    """What a turn says."""
    if turn.parts:
        return list(turn.parts)
    # Beside what an assistant called, or refused, there is no text.
    silent = turn.tool_calls or (turn.extra and turn.role == "assistant")
    return turn.text or (None if silent else "")


def openai_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """What an assistant's message called."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]


def streamed_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """A request's parameters for an answer that is a stream, whatever the request itself asked for."""
    options = {**(parameters.get("stream_options") or {}), "include_usage": True}
    return {**parameters, "stream": True, "stream_options": options}
