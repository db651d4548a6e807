"""How much a request may have in it, by any protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest, TooLarge
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.request_bounds import check_bounds, check_turns
from evenflow.stream_core.session.conversation import ToolCall, Turn

_SMALL = Limits(
    messages_per_request=20, parts_per_request=40, tools_per_request=16, values_per_request=1_024
)
_USER = {"role": "user", "content": "a"}
_PART = {"type": "text", "text": "a"}
_TOOL = {"type": "function", "function": {"name": "f"}}


def _refused(request: Any, limits: Limits = _SMALL) -> EvenflowError:
    with pytest.raises(EvenflowError) as refused:
        check_bounds(json.dumps(request).encode(), limits)
    return refused.value


def _messages(content: Any, times: int = 1, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content, **more}] * times}


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"messages": [_USER] * 21}, "messages"),
        ({"input": [_USER] * 21}, "input"),
        ({"messages": [_USER], "context": [{"description": "a"}] * 21}, "context"),
        ({"payload": {"messages": [_USER] * 21}}, "payload.messages"),
        (_messages([_PART] * 41), "messages.0"),
        (_messages([_PART] * 3, 20), "messages.13"),
        (_messages("a", tool_calls=[{}] * 41), "messages.0"),
        (_messages("a", toolCalls=[{}] * 41), "messages.0"),
        ({"messages": [{"role": "user", "parts": [_PART] * 41}]}, "messages.0"),
        (_messages([{"type": "tool_result", "content": [_PART] * 40}]), "messages.0"),
        ({"input": [{"type": "function_call_output", "output": [_PART] * 41}]}, "input.0"),
        ({"input": [{"type": "reasoning", "summary": [_PART] * 41}]}, "input.0"),
        ({"system": [_PART] * 41}, "system"),
        ({"tools": [_TOOL] * 17}, "tools"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop_sequences": ["a"] * 17}, "stop_sequences"),
        ({"tools": [{"type": "namespace", "tools": [_TOOL] * 16}]}, "tools"),
        ({"forwardedProps": {"tools": [_TOOL] * 17}}, "forwardedProps.tools"),
        ({"forwarded_props": {"tools": [_TOOL] * 17}}, "forwarded_props.tools"),
        ({"payload": {"tools": [_TOOL] * 17}}, "payload.tools"),
    ],
)
def test_a_list_that_is_too_long_is_named(sent: dict[str, Any], param: str) -> None:
    refused = _refused(sent)
    assert isinstance(refused, InvalidRequest)
    assert (refused.code, refused.param) == ("array_above_max_length", param)


@pytest.mark.parametrize(
    "sent",
    [
        {"messages": [_USER] * 20, "tools": [_TOOL] * 16},
        _messages([_PART] * 2, 20),
        _messages("a, [b], {c}, " * 5_000),
        _messages('a\\", [1, 2, 3], \\\\\\"' * 5_000),
        # What a tool gave is data, however it looks.
        {"messages": [{"parts": [{"type": "tool-f", "output": [[1]] * 200}]}]},
        {"state": [0] * 1_000},
    ],
)
def test_what_is_within_the_bounds_passes(sent: dict[str, Any]) -> None:
    assert check_bounds(json.dumps(sent).encode(), _SMALL) <= _SMALL.values_per_request


@pytest.mark.parametrize(
    "sent",
    [
        {"state": [0] * 1_024},
        {"tools": [_TOOL], "x": {f"f{number}": 1 for number in range(1_024)}},
        {"messages": [_USER] * 1_024},
        {"x": [[]] * 600},
        {"text": "\\" * 99_999, "x": [0] * 1_024},
    ],
)
def test_too_many_values_are_refused(sent: dict[str, Any]) -> None:
    assert isinstance(_refused(sent), TooLarge)


@pytest.mark.parametrize("text", [b"[" * 5_000, b'{"a": "' + b'\\"' * 99_999, b'"' * 99_999, b""])
def test_what_is_no_json_is_for_the_reader_to_refuse(text: bytes) -> None:
    check_bounds(text, Limits())


def test_a_value_that_only_some_parsers_take_hides_nothing() -> None:
    request = b'{"x": NaN, "messages": [' + b'{"role":"user"},' * 20 + b'{"role":"user"}]}'
    with pytest.raises(InvalidRequest):
        check_bounds(request, _SMALL)


_JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a",[]{}\\\n\u00e9', max_size=12),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=60,
)


@given(_JSON)
def test_values_are_counted_and_the_marks_in_texts_are_not(value: Any) -> None:
    limits = Limits(tools_per_request=16, messages_per_request=16, parts_per_request=16)
    body = json.dumps({"x": value, "y": [0] * 20}).encode()
    counted = check_bounds(body, limits)
    assert counted == 22 + _count(value) + _count(value, empty=True)


def _count(value: Any, *, empty: bool = False) -> int:
    """The values in this one, itself included; or how many of them are empty lists or objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = (isinstance(value, dict | list) and not value) if empty else 1
    return own + sum(_count(each, empty=empty) for each in inner)


def test_a_piece_may_end_anywhere() -> None:
    for padding in range(65_520, 65_545):
        text = "x" * padding + '\\\\"' * 4 + ',"[,' * 4
        body = json.dumps({"a": text, "b": [0] * 2_000}).encode()
        assert check_bounds(body, Limits()) == 2_003


def test_a_conversation_that_was_put_together_has_the_same_bounds() -> None:
    call = ToolCall("c", "f", "{}")
    check_turns([Turn("user", "a")] * 20, _SMALL, "previous_response_id")
    for turns in ([Turn("user", "a")] * 21, [Turn("assistant", "", (call,) * 3)] * 14):
        with pytest.raises(InvalidRequest) as refused:
            check_turns(turns, _SMALL, "previous_response_id")
        assert refused.value.param == "previous_response_id"


def test_agents_of_today_pass() -> None:
    turn = [
        {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c", "function": {}}]},
        {"role": "tool", "tool_call_id": "c", "content": "line, line, line\n" * 20},
    ]
    properties = {f"p{number}": {"type": "string", "description": "a"} for number in range(20)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    check_bounds(json.dumps({"messages": turn * 2_000, "tools": [tool] * 600}).encode(), Limits())
