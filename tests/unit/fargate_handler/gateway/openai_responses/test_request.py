"""What a request of the Responses API becomes, and what of it is told again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.gateway.openai_responses.input_turns import InputTurns, check_answered
from evenflow.fargate_handler.gateway.openai_responses.listed_items import listed_items
from evenflow.fargate_handler.gateway.openai_responses.request import (
    ResponseCall,
    continued_turns,
    echoed,
    is_stored,
    own_turns,
    read_call,
)
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.log.entries import PartKind
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.output_items import whole_item
from evenflow.stream_core.session.conversation import ToolCall, Turn

_PUBLIC = PublicResponse(f"rsp_{7:032x}", f"{9:040x}")
_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
_CUSTOM = {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}
_SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
_ASKED = {"role": "user", "content": "hello"}
_IMAGE = {"type": "input_image", "image_url": "data:,", "detail": "low"}
_FILE = {"type": "input_file", "file_data": "data:,", "filename": "a.pdf"}


def _output(call_id: str, output: object = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _read(**given: object) -> ResponseCall:
    return read_call(orjson.dumps({"model": "demo", "input": "hello", **given}))


def _asked(**given: object) -> WholeRequest:
    call = _read(**given)
    return WholeRequest.from_text(call.incoming_message((), _turns(call.items)).to_text())


def _turns(items: list[dict[str, Any]]) -> tuple[Turn, ...]:
    turns = InputTurns()
    for place, item in enumerate(items):
        turns.take(item, f"input.{place}.")
    return turns.turns


def _reasoning() -> dict[str, Any]:
    block = Block(0, PartKind.REASONING, name="reasoning", pieces=["so"])
    return whole_item(_PUBLIC, block, "completed")


@pytest.mark.parametrize(
    ("items", "turns"),
    [
        ([_ASKED], [Turn("user", "hello")]),
        ([_ASKED | {"role": "developer"}], [Turn("system", "hello")]),
        ([_SAID, _CALL], [Turn("assistant", "hi", (ToolCall("c1", "f", "{}"),))]),
        ([_CALL, _SAID], [Turn("assistant", "hi", (ToolCall("c1", "f", "{}"),))]),
        ([_SAID, _SAID], [Turn("assistant", "hi"), Turn("assistant", "hi")]),
        ([_output("c1")], [Turn("tool", "done", tool_call_id="c1")]),
        ([_reasoning(), _SAID], [Turn("assistant", "hi", extra={"reasoning": "so"})]),
        (
            [_SAID, _reasoning(), _CALL],
            [
                Turn("assistant", "hi"),
                Turn("assistant", "", (ToolCall("c1", "f", "{}"),), extra={"reasoning": "so"}),
            ],
        ),
    ],
    ids=[
        *("text", "developer", "text and call", "call and text", "two texts", "output"),
        *("reasoning", "a new beginning"),
    ],
)
def test_items_become_turns(items: list[dict[str, Any]], turns: list[Turn]) -> None:
    assert list(_turns(items)) == turns


def test_a_custom_tool_s_call_goes_to_the_model_as_it_has_it() -> None:
    (turn,) = _turns([_CALL, _CUSTOM])
    assert turn.extra["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
    ]


def test_another_server_s_reasoning_is_not_for_this_model() -> None:
    foreign: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    items = [foreign, _SAID]
    assert _turns(items) == (Turn("assistant", "hi"),)


def test_parts_have_the_names_of_chat_completions() -> None:
    parts = [{"type": "input_text", "text": "a"}, _IMAGE, _FILE]
    (turn,) = _turns([{"role": "user", "content": parts}])
    assert turn.text == "a"
    assert turn.parts == (
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:,", "filename": "a.pdf"}},
    )


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"role": "robot", "content": "a"}, "input.0.role"),
        ({"role": "user", "content": 7}, "input.0.content"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input.0.content.0",
        ),
        ({"role": "user", "content": [{"type": "video"}]}, "input.0.content.0.type"),
        ({"type": "web_search_call", "id": "w"}, "input.0.type"),
        (_CALL | {"arguments": None}, "input.0.arguments"),
    ],
)
def test_an_item_that_is_wrong_is_named(item: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _turns([item])
    assert refused.value.param == param


@pytest.mark.parametrize(
    "items", [[_CALL], [_output("c1")], [_CALL, _output("c1"), _output("c1")], [_CALL, _ASKED]]
)
def test_each_call_has_one_output(items: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidRequest, match="tool"):
        check_answered(_turns(items))


def test_the_model_is_given_what_changes_its_answer() -> None:
    schema = {"name": "p", "schema": {"type": "object"}, "strict": True}
    options = _asked(
        max_output_tokens=7,
        temperature=0,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", **schema}, "verbosity": "low"},
        top_logprobs=2,
        truncation="auto",
        prompt_cache_key="k",
        top_k=4,
    ).options
    assert (options.max_completion_tokens, options.temperature) == (7, 0)
    assert options.passed == {
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
        "verbosity": "low",
        "logprobs": True,
        "top_logprobs": 2,
        "top_k": 4,
    }


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools.0"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"n": 2}, "n"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(given: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _read(**given)
    assert refused.value.param == param


_TOOLS = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
    {
        "type": "custom",
        "name": "g",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"},
    },
]


def test_tools_are_told_again_as_they_came() -> None:
    asked = _asked(tools=_TOOLS, tool_choice={"type": "function", "name": "f"})
    assert asked.options.tools[0]["function"]["name"] == "f"
    assert asked.options.tools[1]["custom"]["format"]["grammar"]["syntax"] == "lark"
    assert asked.options.tool_choice == {"type": "function", "function": {"name": "f"}}
    assert echoed(asked)["tools"] == _TOOLS
    assert echoed(asked)["tool_choice"] == {"type": "function", "name": "f"}


_CLOSE = {
    "type": "function",
    "name": "close",
    "description": "Close one.",
    "parameters": {"type": "object"},
    "defer_loading": True,
}
_SPACE = {"type": "namespace", "name": "agents_v1", "description": "Agents.", "tools": [_CLOSE]}
_SPACE_CALL = {**_CALL, "namespace": "agents_v1", "name": "close"}


def test_functions_of_a_namespace_are_offered_under_joined_names() -> None:
    tools = [*_TOOLS, {"type": "tool_search"}, _SPACE]
    choice = {"type": "function", "namespace": "agents_v1", "name": "close"}
    asked = _asked(tools=tools, tool_choice=choice)
    *_, offered = asked.options.tools
    assert len(asked.options.tools) == 3
    assert offered["function"] == {
        "name": "agents_v1__close",
        "description": "Close one.\n\nThis and all tools of agents_v1: Agents.",
        "parameters": {"type": "object"},
    }
    assert asked.options.tool_choice == {
        "type": "function",
        "function": {"name": "agents_v1__close"},
    }
    assert echoed(asked)["tools"] == [*_TOOLS, _SPACE]
    assert echoed(asked)["tool_choice"] == choice


def test_a_search_of_the_web_beside_own_tools_is_left_out() -> None:
    search = {"type": "web_search", "external_web_access": False}
    for tools in (_TOOLS, [_SPACE]):
        asked = _asked(tools=[search, *tools])
        assert asked.options.tools == _asked(tools=tools).options.tools
        assert echoed(asked)["tools"] == tools


def test_a_call_of_a_namespace_is_one_again_in_the_history() -> None:
    custom = {**_CUSTOM, "namespace": "agents_v1"}
    items = [_ASKED, _SPACE_CALL, _output("c1")]
    assert _turns(items)[1].tool_calls == (ToolCall("c1", "agents_v1__close", "{}"),)
    (turn,) = _turns([custom])
    assert turn.extra["tool_calls"][0]["custom"]["name"] == "agents_v1__g"
    told = listed_items(_PUBLIC, _asked(input=items, tools=[_SPACE]), {"order": "asc"})["data"][1]
    assert (told["namespace"], told["name"]) == ("agents_v1", "close")


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "namespace", "tools": []}, "tools.0.name"),
        ({"type": "namespace", "name": "a", "tools": {}}, "tools.0.tools"),
        ({"type": "namespace", "name": "a", "tools": [{"type": "mcp"}]}, "tools.0.tools.0"),
        ({"type": "tool_search", "execution": "client"}, "tools.0"),
    ],
)
def test_a_namespace_that_is_wrong_is_named(tool: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _read(tools=[tool])
    assert refused.value.param == param


@pytest.mark.parametrize("given", [True, False])
def test_whether_calls_are_parallel_is_told_as_asked_also_without_tools(given: bool) -> None:
    assert echoed(_asked(parallel_tool_calls=given))["parallel_tool_calls"] is given


def test_a_response_tells_its_request_again() -> None:
    told = echoed(_asked(instructions="Be brief.", temperature=0, metadata={"a": "b"}))
    assert (told["instructions"], told["temperature"], told["metadata"]) == (
        "Be brief.",
        0,
        {"a": "b"},
    )
    assert (told["model"], told["store"], told["background"]) == ("demo", True, False)


def test_instructions_are_not_continued_and_own_turns_are_told() -> None:
    asked = _read(instructions="Be brief.").incoming_message(
        (Turn("user", "before"),), (Turn("user", "now"),)
    )
    assert [turn.text for turn in asked.turns] == ["Be brief.", "before", "now"]
    assert [turn.text for turn in continued_turns(asked)] == ["before", "now"]
    assert [turn.text for turn in own_turns(asked)] == ["now"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [({}, True), ({"store": False}, False), ({"store": False, "background": True}, True)],
)
def test_a_response_is_stored_unless_it_says_not_to(given: Any, stored: bool) -> None:
    assert is_stored(_asked(**given)) is stored


class TestListedItems:
    def _listed(self, items: list[dict[str, Any]], **query: str) -> dict[str, Any]:
        return listed_items(_PUBLIC, _asked(input=items), query)

    def test_they_are_the_items_again(self) -> None:
        parts = [{"type": "input_text", "text": "a"}, _IMAGE, _FILE]
        asked: dict[str, Any] = {"role": "user", "content": parts}
        items = [asked, _CALL, _output("c1"), _CUSTOM, _output("c2")]
        told = self._listed(items, order="asc")["data"]
        assert [item["type"] for item in told] == [
            *("message", "function_call", "function_call_output"),
            *("custom_tool_call", "function_call_output"),
        ]
        assert told[0]["content"] == parts
        assert told[3]["input"] == "x"

    def test_a_page_goes_on_behind_an_item(self) -> None:
        items = [{"role": "user", "content": str(place)} for place in range(3)]
        first = self._listed(items, limit="2")
        rest = self._listed(items, limit="2", after=first["last_id"])
        said = [item["content"][0]["text"] for item in first["data"] + rest["data"]]
        assert (said, first["has_more"], rest["has_more"]) == (["2", "1", "0"], True, False)

    def test_an_unknown_item_is_named(self) -> None:
        with pytest.raises(InvalidRequest) as refused:
            self._listed([_ASKED], after="item_x")
        assert refused.value.param == "after"
