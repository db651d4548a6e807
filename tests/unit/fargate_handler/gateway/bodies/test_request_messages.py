from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.fargate_handler.gateway.openai_chat.request import CompletionCall, read_call
from evenflow.fargate_handler.token_sources.conversation_forms import openai_message
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.session.conversation import ToolCall, Turn

ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"b": {}, "a": {}}}},
}
NAMED = {"type": "function", "function": {"name": "add"}}


def call(**parameters: object) -> CompletionCall:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | parameters
    return read_call(json.dumps(body).encode())


def refused(**parameters: object) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as told:
        call(**parameters)
    assert "nothing was" in told.value.message
    return told.value.code, told.value.param


def function(**more: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "add"} | more}


def made(*ids: str, **more: object) -> dict[str, Any]:
    calls = [
        {"id": one, "type": "function", "function": {"name": "add", "arguments": "{}"}}
        for one in ids
    ]
    return {"role": "assistant", "tool_calls": calls} | more


def gave(call_id: str, **more: object) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "4"} | more


USER = {"role": "user", "content": "x"}


def test_tools_are_given_as_they_came() -> None:
    options = call(
        tools=[ADD, function(description="Adds.", strict=True)], parallel_tool_calls=False
    ).request.options
    assert options.tools == (ADD, function(description="Adds.", strict=True))
    assert list(options.tools[0]["function"]["parameters"]["properties"]) == ["b", "a"]
    assert (options.tool_choice, options.parallel_tool_calls) == (None, False)


@pytest.mark.parametrize(
    "choice",
    [
        None,
        *("none", "auto", "required", "any"),
        NAMED,
        NAMED | {"more": 1},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
        {"type": "custom", "custom": {"name": "x"}},
    ],
)
def test_a_choice(choice: object) -> None:
    assert call(tools=[ADD], tool_choice=choice).request.options.tool_choice == choice


@pytest.mark.parametrize(
    "parameters",
    [
        {"tools": []},
        {"tools": None},
        {"tool_choice": "auto"},
        {"tool_choice": "none"},
        {"parallel_tool_calls": True},
    ],
)
def test_what_asks_for_no_tools(parameters: dict[str, object]) -> None:
    assert call(**parameters).request.options == ModelOptions()


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (7, "tools.1"),
        ({}, "tools.1.type"),
        ({"type": "function"}, "tools.1.function"),
        ({"type": "function", "function": {}}, "tools.1.function.name"),
        (function(name=""), "tools.1.function.name"),
        (function(name="a" * 257), "tools.1.function.name"),
        (function(description=7), "tools.1.function.description"),
        (function(parameters=[]), "tools.1.function.parameters"),
        (function(parameters={"maximum": 2**64}), "tools.1"),
        (function(parameters={"maximum": float("inf")}), "tools.1"),
        (function(strict="yes"), "tools.1.function.strict"),
    ],
)
def test_what_is_no_tool_is_named(tool: object, param: str) -> None:
    assert refused(tools=[ADD, tool]) == ("invalid_field", param)


@pytest.mark.parametrize(
    "tool",
    [
        ADD | {"cache_control": {"type": "ephemeral"}},
        function(returns={"type": "number"}),
        function(name="files.read"),
        function(name="a" * 256),
        function(strict=None),
        {"type": "custom", "custom": {"name": "x", "format": {"type": "text"}}},
    ],
)
def test_what_is_said_of_a_tool_is_for_the_model_s_server_to_judge(tool: dict[str, Any]) -> None:
    assert call(tools=[tool]).request.options.tools == (tool,)


def test_there_may_be_many() -> None:
    assert len(call(tools=[ADD] * 300).request.options.tools) == 300


@pytest.mark.parametrize(
    "choice",
    [
        7,
        {},
        ["auto"],
        {"type": "function", "function": {"name": "sub"}},
        {"type": "function", "function": {"name": 7}},
        {"type": "function", "name": "add"},
        {"type": "allowed_tools", "most": float("nan")},
    ],
)
def test_a_choice_that_is_none(choice: object) -> None:
    assert refused(tools=[ADD], tool_choice=choice) == ("invalid_field", "tool_choice")


@pytest.mark.parametrize("choice", ["required", NAMED, 7])
def test_a_choice_of_nothing(choice: object) -> None:
    assert refused(tool_choice=choice) == ("invalid_field", "tool_choice")


def test_a_conversation_with_calls() -> None:
    messages = [
        USER,
        made("c1", "c2", content=None),
        gave("c2"),
        gave("c1"),
        made("c3", content="Now."),
        gave("c3"),
    ]
    one, two, three = (ToolCall(name, "add", "{}") for name in ("c1", "c2", "c3"))
    assert call(messages=messages).request.turns == (
        Turn("user", "x"),
        Turn("assistant", "", (one, two)),
        Turn("tool", "4", tool_call_id="c2"),
        Turn("tool", "4", tool_call_id="c1"),
        Turn("assistant", "Now.", (three,)),
        Turn("tool", "4", tool_call_id="c3"),
    )


@pytest.mark.parametrize("content", ["", None])
def test_beside_calls_no_text_and_an_empty_one_are_two_things(content: str | None) -> None:
    turns = call(messages=[USER, made("c1", content=content), gave("c1")]).request.turns
    assert openai_message(turns[1])["content"] == content


def test_what_clients_add_to_the_calls_that_they_send_back_says_nothing() -> None:
    echoed = made("c1", parsed=None, refusal=None)
    echoed["tool_calls"][0] |= {"index": 0, "provider_specific_fields": None, "caller": None}
    echoed["tool_calls"][0]["function"]["parsed_arguments"] = {"a": 1}
    assert call(messages=[USER, echoed, gave("c1")]) == call(
        messages=[USER, made("c1"), gave("c1")]
    )


def test_what_a_server_gave_with_a_call_goes_back_to_it() -> None:
    signed = made("c1")
    fields = {"extra_content": {"google": {"thought_signature": "c2ln"}}, "n": 1}
    signed["tool_calls"][0] |= fields
    signed["tool_calls"][0]["function"]["part"] = 2
    turn = call(messages=[USER, signed, gave("c1")]).request.turns[1]
    extra = fields | {"function": {"part": 2}}
    assert turn == Turn("assistant", "", (ToolCall("c1", "add", "{}", extra),))
    assert openai_message(turn)["tool_calls"] == signed["tool_calls"]


@pytest.mark.parametrize("where", ["", "function."])
def test_a_field_of_a_call_that_json_cannot_have_is_named(where: str) -> None:
    wrong = made("c1")
    told = wrong["tool_calls"][0]
    (told["function"] if where else told)["extra"] = float("nan")
    path = f"messages.1.tool_calls.0.{where}extra"
    assert refused(messages=[USER, wrong, gave("c1")]) == ("invalid_field", path)


def test_calls_of_another_type_go_on_as_they_came() -> None:
    calls = [
        {"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        *made("c2")["tool_calls"],
    ]
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": calls},
        gave("c1"),
        gave("c2"),
    ]
    assert call(messages=messages).request.turns[1] == Turn(
        "assistant", "", extra={"tool_calls": calls}
    )


def test_a_call_without_a_type_is_a_function_s() -> None:
    untyped = made("c1")
    del untyped["tool_calls"][0]["type"]
    assert call(messages=[USER, untyped, gave("c1")]) == call(
        messages=[USER, made("c1"), gave("c1")]
    )


def test_a_deprecated_call_of_the_history_goes_on_as_it_came() -> None:
    called = {"name": "add", "arguments": "{}"}
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": called},
        {"role": "function", "name": "add", "content": "4"},
    ]
    asked = call(messages=messages).request
    assert asked.turns[1:] == (
        Turn("assistant", "", extra={"function_call": called}),
        Turn("function", "4", extra={"name": "add"}),
    )


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([gave("c1")], "messages.1.tool_call_id"),
        ([made("c1"), gave("c2")], "messages.2.tool_call_id"),
        ([made("c1"), gave("c1"), gave("c1")], "messages.3.tool_call_id"),
        ([made("c1")], "messages.1.tool_calls"),
        ([made("c1", "c2"), gave("c1"), USER], "messages.1.tool_calls"),
        ([made("c1"), USER, gave("c1")], "messages.1.tool_calls"),
        ([made("c1", "c1"), gave("c1")], "messages.1.tool_calls"),
        ([made("c1") | {"role": "user"}], "messages.1.tool_calls"),
        ([USER | {"tool_call_id": "c1"}], "messages.1.tool_call_id"),
        ([{"role": "tool", "content": "4"}], "messages.1.tool_call_id"),
        ([made("c1"), gave("c1", content=None)], "messages.2.content"),
        ([made("c1") | {"tool_calls": [{"id": "c1"}]}], "messages.1.tool_calls.0.function"),
        ([made("")], "messages.1.tool_calls.0.id"),
        ([made(*map(str, range(129)))], "messages.1.tool_calls"),
    ],
)
def test_a_conversation_whose_calls_make_no_sense(messages: list[object], param: str) -> None:
    assert refused(messages=[USER, *messages]) == ("invalid_field", param)
