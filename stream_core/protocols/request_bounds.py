"""Checks how many values a request's JSON has, before it is parsed: many small ones cost most."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any

from pydantic_core import from_json

from evenflow.stream_core.base.errors import InvalidRequest, TooLarge
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.session.conversation import Turn

# The names by protocol of lists of messages, of lists in a message, and of lists in its parts.
_MESSAGES = ("messages", "input", "context")
_PARTS = frozenset({"parts", "content", "tool_calls", "toolCalls", "summary"})
_PARTS_OF_ITEMS = _PARTS | {"output"}
_FORWARDED = ("forwardedProps", "forwarded_props")
_STOPS = ("stop", "stop_sequences")
_PIECE_BYTES = 65_536
_BACKSLASH = ord("\\")
_BACKSLASHES = re.compile(rb"\\*+")


def check_bounds(body: bytes | bytearray, limits: Limits) -> int:
    """Check the values, messages, parts and tools of a request of any protocol.

    Returns:
        How many values it has, or a few more.

    Raises:
        TooLarge: it has too many values.
        InvalidRequest: one of its lists is too long.
    """
    lowest = min(limits.messages_per_request, limits.parts_per_request, limits.tools_per_request)
    values = 1 + _marks_in(body)
    if values > lowest:
        values = _values_outside_texts(body, limits.values_per_request)
    if values > limits.values_per_request:
        raise TooLarge(
            f"the body has more than {limits.values_per_request:,} JSON values, the most that a "
            "request may have; nothing was generated, send less at once",
            code="message_too_large",
        )
    if values > lowest:
        _check_lists(body, limits)
    return values


def check_turns(turns: Sequence[Turn], limits: Limits, param: str) -> None:
    """Check a conversation that was put together of several requests, as `check_bounds` does.

    Raises:
        InvalidRequest: it has too many turns or parts.
    """
    _check(param, len(turns), limits.messages_per_request, "messages and items")
    parts = sum(len(turn.parts) + len(turn.tool_calls) for turn in turns)
    _check(param, parts, limits.parts_per_request, "parts and calls")


def _marks_in(text: bytes | bytearray) -> int:
    """Count the marks that precede values: each value but the first follows one of them."""
    return text.count(b"{") + text.count(b"[") + text.count(b",")


def _values_outside_texts(body: bytes | bytearray, limit: int) -> int:
    """Count values, up to more than `limit`. Commas within texts don't count."""
    values, place, in_text = 1, 0, 0
    # In pieces, between which other threads may run.
    while place < len(body) and values <= limit:
        end = min(place + _PIECE_BYTES, len(body))
        if body[end - 1] == _BACKSLASH and (run := _BACKSLASHES.match(body, end - 1)):
            end = run.end() + 1  # with the character that they may escape
        piece = bytes(body[place:end]).replace(b"\\\\", b"").replace(b'\\"', b"")
        texts = piece.split(b'"')
        values += _marks_in(b"".join(texts[in_text::2]))
        in_text ^= (len(texts) - 1) % 2
        place = end
    return values


def _check_lists(body: bytes | bytearray, limits: Limits) -> None:
    try:
        request = from_json(body)
    except ValueError:
        return  # the endpoint that parses it reports the error
    if isinstance(request, dict):
        _check_request(request, limits, "")
        _check_request(request.get("payload"), limits, "payload.")


def _check_request(request: Any, limits: Limits, where: str) -> None:
    for name in _MESSAGES:
        messages = _list_in(request, name)
        _check(f"{where}{name}", len(messages), limits.messages_per_request)
        parts = 0
        for place, message in enumerate(messages):
            parts += _parts_in(message, _PARTS_OF_ITEMS)
            if parts > limits.parts_per_request:
                param = f"{where}{name}.{place}"
                _check(param, parts, limits.parts_per_request, "parts, with those before it")
    _check("system", len(_list_in(request, "system")), limits.parts_per_request)
    _check(f"{where}tools", _tools_in(request), limits.tools_per_request)
    for name in _STOPS:
        _check(f"{where}{name}", len(_list_in(request, name)), limits.tools_per_request)
    for name in _FORWARDED:
        _check(f"{name}.tools", _tools_in(_in(request, name)), limits.tools_per_request)


def _check(param: str, count: int, limit: int, what: str = "entries") -> None:
    if count > limit:
        raise InvalidRequest(
            f"{param} has {count:,} {what}, more than the {limit:,} that a request may have; "
            "nothing was generated, send fewer",
            code="array_above_max_length",
            param=param,
        )


def _in(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list_in(value: Any, name: str) -> list[Any]:
    inner = _in(value, name)
    return inner if isinstance(inner, list) else []


def _parts_in(message: Any, names: Container[str]) -> int:
    """The number of a message's parts, with the parts within parts."""
    if not isinstance(message, dict):
        return 0
    lists = [
        values for name, values in message.items() if isinstance(values, list) and name in names
    ]
    return sum(len(values) + sum(_parts_in(part, _PARTS) for part in values) for values in lists)


def _tools_in(request: Any) -> int:
    """The number of a request's tools, with those in namespaces."""
    tools = _list_in(request, "tools")
    return len(tools) + sum(map(_tools_in, tools))
