"""A conversation in the forms of models' servers: OpenAI's messages, or system texts and turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import dropwhile, groupby
from typing import Any

from evenflow.stream_core.log.returned_fields import call_object
from evenflow.stream_core.session.conversation import ToolCall, Turn


def openai_message(turn: Turn) -> dict[str, Any]:
    """One turn as a message. Its parts and further fields are unchanged."""
    message: dict[str, Any] = {"role": turn.role, "content": openai_content(turn)}
    if turn.tool_calls:
        message["tool_calls"] = openai_calls(turn.tool_calls)
    if turn.role == "tool":
        message["tool_call_id"] = turn.tool_call_id
    return message | turn.extra


def openai_content(turn: Turn) -> str | list[dict[str, Any]] | None:
    """The content of a turn."""
    if turn.parts:
        return list(turn.parts)
    # An assistant's message with calls or a refusal may have no text.
    silent = turn.tool_calls or (turn.extra and turn.role == "assistant")
    return turn.text or (None if silent else "")


def openai_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """The calls of an assistant's message, with the further fields of the server."""
    return [
        call_object(
            "function", call.id, {"name": call.name, "arguments": call.arguments}, call.extra
        )
        for call in calls
    ]


def streamed_parameters(parameters: dict[str, Any], *, with_usage: bool = True) -> dict[str, Any]:
    """A request's parameters for a streamed answer, even if it didn't request one.

    Args:
        with_usage: whether to request the counts of tokens. Some servers reject that parameter, and
            always send them.
    """
    options = {**(parameters.get("stream_options") or {})}
    if with_usage:
        options["include_usage"] = True
    streamed = {**parameters, "stream": True, "stream_options": options}
    if not options:
        del streamed["stream_options"]
    return streamed


def system_texts(turns: Iterable[Turn]) -> list[str]:
    """The texts of system turns in order, without blank ones, for models that take them apart."""
    return [turn.text for turn in turns if turn.role == "system" and turn.text.strip()]


# They are in `extra` if they are not calls of functions.
_CALLS = frozenset({"tool_calls", "function_call"})


def alternating_turns(turns: Sequence[Turn]) -> list[tuple[str, list[Turn]]]:
    """User and assistant in turn, the user first, as models require. System turns are left out.

    Blank turns are left out, since models refuse a conversation with one. The last turn stays in
    any case. Turns of tools come between the assistant's call and the next speaker. Two messages of
    a role can follow each other, after an answer that was cancelled before its first token.

    Returns:
        Each role with its turns. The last one is the message to answer.
    """
    talk = [turn for turn in turns if turn.role != "system"]
    spoken_turns = [turn for turn in talk[:-1] if _has_content(turn)] + talk[-1:]
    by_role = groupby(
        dropwhile(lambda turn: turn.role != "user", spoken_turns), key=lambda turn: turn.role
    )
    return [(role, list(group)) for role, group in by_role]


def _has_content(turn: Turn) -> bool:
    has_calls = turn.tool_calls or not _CALLS.isdisjoint(turn.extra)
    return bool(turn.text.strip() or turn.parts or has_calls or turn.role in ("tool", "function"))
