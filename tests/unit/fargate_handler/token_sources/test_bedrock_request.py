from __future__ import annotations

import base64
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.bedrock_request import answer_tool, bedrock_request
from evenflow.fargate_handler.token_sources.port import ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused, UnsupportedByModel
from evenflow.stream_core.session.conversation import ToolCall, Turn

_SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}}
_ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": _SCHEMA, "strict": True},
}
_NOW = {"type": "function", "function": {"name": "now", "description": ""}}


def asked(*turns: Turn, **options: Any) -> dict[str, Any]:
    return bedrock_request(ModelRequest("demo", turns, 1, options=ModelOptions(**options)), 1000)


_USER = Turn("user", "x")


def test_tools_and_the_choice_of_them() -> None:
    config = asked(_USER, tools=(_ADD, _NOW))["toolConfig"]
    assert config == {
        "tools": [
            {
                "toolSpec": {
                    "name": "add",
                    "inputSchema": {"json": _SCHEMA},
                    "description": "Adds.",
                    "strict": True,
                }
            },
            {
                "toolSpec": {
                    "name": "now",
                    "inputSchema": {"json": {"type": "object", "properties": {}}},
                }
            },
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
        {
            "role": "assistant",
            "content": [use, {"toolUse": {"toolUseId": "c2", "name": "now", "input": {}}}],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "2"}]}},
                {"toolResult": {"toolUseId": "c2", "content": []}},
                {"text": "and?"},
            ],
        },
        {"role": "assistant", "content": [{"text": "Well."}, use]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "3"}]}}],
        },
    ]


@pytest.mark.parametrize("arguments", ["{", "[1]", "7", '{"a":' * 300 + "1" + "}" * 300])
def test_arguments_that_are_no_object_are_told(arguments: str) -> None:
    with pytest.raises(ModelRefused, match="'c1'"):
        asked(
            _USER,
            Turn("assistant", "", (ToolCall("c1", "add", arguments),)),
            Turn("tool", "2", tool_call_id="c1"),
        )


_PNG = b"\x89PNG\r\n\x1a\n..."


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def data_url(kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(_PNG).decode()}"


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        ("image/png", "png"),
        ("image/jpeg", "jpeg"),
        ("image/jpg", "jpeg"),
        ("image/gif", "gif"),
        ("image/webp", "webp"),
        ("IMAGE/PNG", "png"),
    ],
)
def test_an_image_is_given_as_its_bytes(kind: str, there: str) -> None:
    parts = (
        image(data_url(kind)),
        {"type": "text", "text": " "},
        {"type": "text", "text": "x", "cache_control": {}},
    )
    (message,) = asked(Turn("user", " x", parts=parts))["messages"]
    assert message["content"] == [
        {"image": {"format": there, "source": {"bytes": _PNG}}},
        {"text": "x"},
    ]


def test_a_tool_may_give_an_image() -> None:
    turns = (
        _USER,
        Turn("assistant", "", (ToolCall("c1", "add", "{}"),)),
        Turn("tool", "", tool_call_id="c1", parts=(image(data_url()),)),
    )
    (result,) = asked(*turns)["messages"][2]["content"]
    assert result["toolResult"]["content"] == [
        {"image": {"format": "png", "source": {"bytes": _PNG}}}
    ]


@pytest.mark.parametrize(
    ("turn", "param"),
    [
        (Turn("user", "", parts=(image("https://example.com/x.png"),)), "messages.1.content.0"),
        (Turn("user", "", parts=(image(data_url("image/bmp")),)), "messages.1.content.0"),
        (Turn("user", "", parts=(image("data:image/png;base64,?"),)), "messages.1.content.0"),
        (Turn("user", "", parts=({"type": "image_url"},)), "messages.1.content.0"),
        (
            Turn("user", "", parts=(image(data_url()), {"type": "input_audio"})),
            "messages.1.content.1",
        ),
        (Turn("user", "", parts=({"type": "file", "file": {}},)), "messages.1.content.0"),
        (Turn("system", "", parts=(image(data_url()),)), "messages.1.content.0"),
        (Turn("function", "4", extra={"name": "add"}), "messages.1.role"),
        (Turn("assistant", "", extra={"function_call": {}}), "messages.1.function_call"),
        (Turn("assistant", "", extra={"tool_calls": []}), "messages.1.tool_calls"),
        (Turn("assistant", "", extra={"audio": {"id": "a"}}), "messages.1.audio"),
    ],
)
def test_what_cannot_be_told_is_refused_by_its_place(turn: Turn, param: str) -> None:
    with pytest.raises(UnsupportedByModel) as refused:
        asked(_USER, turn, _USER)
    assert (refused.value.status, refused.value.code, refused.value.param) == (
        400,
        "unsupported_value",
        param,
    )


def test_further_fields_that_change_nothing_are_left_out() -> None:
    extra = {"name": "Ann", "cache_control": {}, "reasoning_content": "Hm.", "refusal": "No."}
    assert asked(Turn("user", "x", extra=extra)) == asked(_USER)


def test_some_parameters_are_a_model_s_own() -> None:
    passed = {"top_k": 5, "reasoning_effort": "low", "user": "u", "n": 1}
    assert asked(_USER, passed=passed) == asked(_USER) | {
        "additionalModelRequestFields": {"top_k": 5, "reasoning_effort": "low"}
    }


_PERSON = {"name": "person", "description": "One.", "schema": _SCHEMA, "strict": True}
_FORMAT = {"response_format": {"type": "json_schema", "json_schema": _PERSON}}
_SPEC = {"name": "person", "description": "One.", "inputSchema": {"json": _SCHEMA}}


def test_a_schema_is_a_tool_that_must_be_called() -> None:
    assert asked(_USER, passed=_FORMAT)["toolConfig"] == {
        "tools": [{"toolSpec": _SPEC}],
        "toolChoice": {"tool": {"name": "person"}},
    }
    assert answer_tool(ModelOptions(passed=_FORMAT)) == "person"


@pytest.mark.parametrize("choice", [None, "auto", "required"])
def test_beside_tools_the_schema_is_one_of_them(choice: str | None) -> None:
    config = asked(_USER, tools=(_NOW,), tool_choice=choice, passed=_FORMAT)["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["now", "person"]
    assert config["toolChoice"] == {"any": {}}


def test_without_the_others_the_schema_stays() -> None:
    config = asked(_USER, tools=(_NOW,), tool_choice="none", passed=_FORMAT)["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["person"]


def test_a_tool_that_must_be_called_is_no_answer() -> None:
    named = {"type": "function", "function": {"name": "now"}}
    config = asked(_USER, tools=(_NOW,), tool_choice=named, passed=_FORMAT)["toolConfig"]
    assert (len(config["tools"]), config["toolChoice"]) == (1, {"tool": {"name": "now"}})


def test_a_schema_with_the_name_of_a_tool_has_another() -> None:
    options = ModelOptions(
        tools=(_ADD,),
        passed={
            "response_format": {"type": "json_schema", "json_schema": _PERSON | {"name": "add"}}
        },
    )
    assert answer_tool(options) == "add_answer"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"tools": ({"type": "custom", "custom": {"name": "x"}},)}, "tools.0"),
        ({"tools": (_ADD,), "tool_choice": "any"}, "tool_choice"),
        ({"tools": (_ADD,), "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ],
)
def test_tools_that_bedrock_does_not_have(options: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedByModel) as refused:
        asked(_USER, **options)
    assert refused.value.param == param


_SIGNED = {"type": "reasoning.text", "index": 0, "format": "bedrock", "text": "Hm"}
_HIDDEN = {"type": "reasoning.encrypted", "index": 1, "format": "bedrock", "data": "AP8="}


def test_reasoning_goes_back_with_its_signature_before_the_call() -> None:
    details = [
        _SIGNED | {"signature": "s"},
        _HIDDEN,
        _SIGNED,  # without a signature it would be refused
        _HIDDEN | {"format": "of another server"},
    ]
    called = Turn(
        "assistant",
        "So.",
        (ToolCall("c1", "add", "{}"),),
        extra={"reasoning_content": "Hm", "reasoning_details": details},
    )
    _, told, _ = asked(_USER, called, Turn("tool", "3", tool_call_id="c1"))["messages"]
    assert told["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": b"\x00\xff"}},
        {"text": "So."},
        {"toolUse": {"toolUseId": "c1", "name": "add", "input": {}}},
    ]


def test_encrypted_reasoning_that_is_not_as_it_was_given_is_refused() -> None:
    said = Turn("assistant", "So.", extra={"reasoning_details": [_HIDDEN | {"data": "!"}]})
    with pytest.raises(ModelRefused):
        asked(_USER, said, _USER)


@pytest.mark.parametrize("details", ["x", [7], [{}], [_SIGNED | {"signature": None}]])
def test_other_details_are_left_out(details: object) -> None:
    said = Turn("assistant", "So.", extra={"reasoning_details": details})
    _, told, _ = asked(_USER, said, _USER)["messages"]
    assert told["content"] == [{"text": "So."}]
