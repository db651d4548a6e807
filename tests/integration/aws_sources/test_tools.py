"""Tools of both services: what they are asked, through the real SDK, and what their events say
of calls.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import EvenflowError, ModelRefused
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.session.conversation import ToolCall, Turn
from tests.integration.aws_models.events import (
    MESSAGE_START,
    bedrock_end,
    chat_chunk,
    chat_usage,
    cut_anywhere,
    json_lines,
    payload_part,
    sse,
    text_delta,
    tool_use,
)
from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.reply import refuses, sends
from tests.integration.aws_models.services import BEDROCK, SAGEMAKER_LMI, SAGEMAKER_VLLM, Service
from tests.integration.aws_sources.conftest import FINISH, Opened
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_SCHEMA = {
    "type": "object",
    "properties": {"b": {"type": "number"}, "a": {"type": "number", "default": None}},
}
_ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": _SCHEMA},
}
_CALL = ToolCall("call_1", "add", '{"a": 1.5, "b": "流"}')
_TURNS = (
    Turn("user", "x"),
    Turn("assistant", "", (_CALL,)),
    Turn("tool", "2.5", tool_call_id="call_1"),
    Turn("user", "and now?"),
)


def _call(number: int, arguments: str, call_id: str, name: str) -> list[Content]:
    return [
        Part(PartKind.CALL, call=number, id=call_id, name=name),
        Part(PartKind.ARGUMENTS, arguments, call=number),
        Part(PartKind.CALL_END, call=number),
    ]


_SAID = [
    "I add. ",
    *_call(0, '{"a": "流"}', "call_1", "add"),
    *_call(1, "{}", "call_2", "now"),
]


def _asking(**options: Any) -> ModelRequest:
    return ModelRequest("demo", _TURNS, 1, options=ModelOptions(**{"tools": (_ADD,)} | options))


async def _answered(
    service: Service, opened: Opened, request: ModelRequest
) -> tuple[list[Content], ModelFinish]:
    sink = RecordingSink()
    finish = await opened(service).generate(request, sink)
    return sink.answer, finish


async def test_bedrock_is_given_tools_in_its_own_way(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*BEDROCK.answer(["yes"])))
    named = {"type": "function", "function": {"name": "add"}}
    assert await _answered(BEDROCK, opened, _asking(tool_choice=named)) == (
        ["yes"],
        FINISH,
    )
    asked = model.requests[0]
    assert asked["toolConfig"] == {
        "tools": [
            {"toolSpec": {"name": "add", "description": "Adds.", "inputSchema": {"json": _SCHEMA}}}
        ],
        "toolChoice": {"tool": {"name": "add"}},
    }
    use = {"toolUseId": "call_1", "name": "add", "input": {"a": 1.5, "b": "流"}}
    assert asked["messages"] == [
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "assistant", "content": [{"toolUse": use}]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "call_1", "content": [{"text": "2.5"}]}},
                {"text": "and now?"},
            ],
        },
    ]


async def test_bedrock_is_given_what_is_nested_deep(model: ModelServer, opened: Opened) -> None:
    deep: dict[str, Any] = {}
    for _ in range(250):
        deep = {"a": deep}
    model.will(sends(*BEDROCK.answer(["yes"])))
    turns = (
        _TURNS[0],
        Turn("assistant", "", (ToolCall("call_1", "add", json.dumps(deep)),)),
        *_TURNS[2:],
    )
    await opened(BEDROCK).generate(
        ModelRequest("demo", turns, 1, options=ModelOptions(tools=(_ADD,))), RecordingSink()
    )
    assert model.requests[0]["messages"][1]["content"][0]["toolUse"]["input"] == deep


async def test_what_a_model_on_bedrock_calls(model: ModelServer, opened: Opened) -> None:
    events = [
        MESSAGE_START,
        text_delta("I add. "),
        tool_use(1, "call_1", "add", '{"a', '": "流', '"}'),
        tool_use(2, "call_2", "now"),
        bedrock_end("tool_use"),
    ]
    model.will(sends(*cut_anywhere(b"".join(events), Random(1), 50)))
    said, finish = await _answered(BEDROCK, opened, _asking())
    assert (said, finish) == (_SAID, ModelFinish("tool_calls", FINISH.usage))


async def test_sagemaker_is_given_tools_in_openais_way(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*SAGEMAKER_VLLM.answer(["yes"]), headers=SAGEMAKER_VLLM.headers))
    request = _asking(tool_choice="required", parallel_tool_calls=False)
    assert await _answered(SAGEMAKER_VLLM, opened, request) == (["yes"], FINISH)
    asked = model.requests[0]
    assert (asked["tools"], asked["tool_choice"], asked["parallel_tool_calls"]) == (
        [_ADD],
        "required",
        False,
    )
    made = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "add", "arguments": _CALL.arguments},
    }
    assert asked["messages"] == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "content": "2.5", "tool_call_id": "call_1"},
        {"role": "user", "content": "and now?"},
    ]


@pytest.mark.parametrize("service", [SAGEMAKER_VLLM, SAGEMAKER_LMI])
async def test_what_a_model_on_sagemaker_calls(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    def fragment(index: int, arguments: str, **begins: str) -> str:
        function = {"arguments": arguments} | ({"name": begins.pop("name")} if begins else {})
        return chat_chunk(delta={"tool_calls": [{"index": index, **begins, "function": function}]})

    chunks = [
        chat_chunk("I add. "),
        fragment(0, "", id="call_1", name="add"),
        *(fragment(0, piece) for piece in ('{"a', '": "流', '"}')),
        fragment(1, "{}", id="call_2", name="now"),
        chat_chunk(finish_reason="tool_calls"),
        chat_usage(),
        "[DONE]",
    ]
    data = (json_lines if service is SAGEMAKER_LMI else sse)(*chunks)
    model.will(
        sends(*map(payload_part, cut_anywhere(data, Random(1), 50)), headers=service.headers)
    )
    said, finish = await _answered(service, opened, _asking())
    assert (said, finish) == (_SAID, ModelFinish("tool_calls", FINISH.usage))


async def test_a_model_on_bedrock_without_tools_says_so(model: ModelServer, opened: Opened) -> None:
    told = "This model doesn't support tool use in streaming mode."
    model.will(refuses(400, "ValidationException", told))
    with pytest.raises(EvenflowError) as refused:
        await opened(BEDROCK).generate(_asking(), RecordingSink())
    assert type(refused.value) is ModelRefused
    assert "can't use the tools of the request" in refused.value.message
    assert told not in refused.value.message
