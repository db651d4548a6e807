from __future__ import annotations

from typing import Any

import pytest

from fargate_handler.token_sources.bedrock_request import bedrock_request
from fargate_handler.token_sources.port import ModelOptions, ModelRequest
from stream_core.conversation import ToolCall, Turn
from stream_core.errors import ModelRefused

_SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}}
_ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": _SCHEMA, "strict": True}}
_NOW = {"type": "function", "function": {"name": "now", "description": ""}}


def asked(*turns: Turn, **options: Any) -> dict[str, Any]:
    return bedrock_request(ModelRequest("demo", turns, 1, options=ModelOptions(**options)), 1000)


_USER = Turn("user", "x")


def test_tools_and_the_choice_of_them() -> None:
    config = asked(_USER, tools=(_ADD, _NOW))["toolConfig"]
    assert config == {
        "tools": [
            {"toolSpec": {"name": "add", "inputSchema": {"json": _SCHEMA}, "description": "Adds.", "strict": True}},
            {"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object", "properties": {}}}}},
        ]
    }


@pytest.mark.parametrize(
    ("choice", "there"),
    [
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ({"type": "function", "function": {"name": "add"}}, {"tool": {"name": "add"}}),
    ],
)
def test_the_choice(choice: object, there: dict[str, Any]) -> None:
    assert asked(_USER, tools=(_ADD,), tool_choice=choice)["toolConfig"]["toolChoice"] == there


def test_none_is_no_tools() -> None:
    assert "toolConfig" not in asked(_USER, tools=(_ADD,), tool_choice="none")
    assert "toolConfig" not in asked(_USER)


def test_what_was_called_and_what_it_gave() -> None:
    calls = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "now", ""))
    request = asked(
        Turn("system", "Be brief."),
        _USER,
        Turn("assistant", " ", calls),
        Turn("tool", "2", tool_call_id="c1"),
        Turn("tool", "", tool_call_id="c2"),
        Turn("user", "and?"),
        Turn("assistant", "Well.", calls[:1]),
        Turn("tool", "3", tool_call_id="c1"),
    )
    use = {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}}
    assert request["system"] == [{"text": "Be brief."}]
    assert request["messages"] == [
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "assistant", "content": [use, {"toolUse": {"toolUseId": "c2", "name": "now", "input": {}}}]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "2"}]}},
                {"toolResult": {"toolUseId": "c2", "content": []}},
                {"text": "and?"},
            ],
        },
        {"role": "assistant", "content": [{"text": "Well."}, use]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "3"}]}}]},
    ]


@pytest.mark.parametrize("arguments", ["{", "[1]", "7", '{"a":' * 300 + "1" + "}" * 300])
def test_arguments_that_are_no_object_are_told(arguments: str) -> None:
    with pytest.raises(ModelRefused, match="'c1'"):
        asked(_USER, Turn("assistant", "", (ToolCall("c1", "add", arguments),)), Turn("tool", "2", tool_call_id="c1"))
