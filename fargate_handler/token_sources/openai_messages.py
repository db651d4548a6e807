"""A conversation as the messages of OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stream_core.conversation import ToolCall, Turn


def openai_message(turn: Turn) -> dict[str, Any]:
    """One turn."""
    if turn.tool_calls:
        return {"role": turn.role, "content": turn.text or None, "tool_calls": openai_calls(turn.tool_calls)}
    message = {"role": turn.role, "content": turn.text}
    return message | {"tool_call_id": turn.tool_call_id} if turn.role == "tool" else message


def openai_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """What an assistant's message called."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
