"""A conversation as models' servers take it: OpenAI's messages, system texts apart, user and assistant in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import dropwhile, groupby
from typing import Any

from stream_core.log.conversation import ToolCall, Turn


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


def system_texts(turns: Iterable[Turn]) -> list[str]:
    """What the system turns say, in order, without blank texts: for models that take it apart from the talk."""
    return [turn.text for turn in turns if turn.role == "system" and turn.text.strip()]


# As they came, where they are no calls of functions.
_CALLS = frozenset({"tool_calls", "function_call"})


def alternating_turns(turns: Sequence[Turn]) -> list[tuple[str, list[Turn]]]:
    """User and assistant in turn, the user first, as models insist on it.

    Returns roles and their turns, the last one the message to answer. System turns stand apart (`system_texts`).

    Two messages of one role follow each other after an answer that was cancelled before its first token. A blank turn
    is left out: it would have every later message refused. The last one stays, whatever it is. What tools gave, the role
    `tool`, stands between the assistant that called and whoever speaks next.
    """
    talk = [turn for turn in turns if turn.role != "system"]
    said = [turn for turn in talk[:-1] if _says_something(turn)] + talk[-1:]
    by_role = groupby(dropwhile(lambda turn: turn.role != "user", said), key=lambda turn: turn.role)
    return [(role, list(group)) for role, group in by_role]


def _says_something(turn: Turn) -> bool:
    called = turn.tool_calls or not _CALLS.isdisjoint(turn.extra)
    return bool(turn.text.strip() or turn.parts or called or turn.role in ("tool", "function"))
