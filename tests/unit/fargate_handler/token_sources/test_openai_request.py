from __future__ import annotations

import pytest

from evenflow.fargate_handler.model_source import make_token_source
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import ModelOptions, ModelRequest
from evenflow.stream_core.session.conversation import ToolCall, Turn
from tests.unit.hand_turned_clock import HandTurnedClock

TURNS = (Turn("user", "one?"), Turn("assistant", "one."), Turn("user", "two?"))


@pytest.mark.parametrize("continues", [True, False])
async def test_what_the_server_is_asked(continues: bool) -> None:
    model = OpenAIModel("http://model/v1/", "m", None, continues=continues)
    assert model.continues is continues
    body = model._body(ModelRequest("demo", TURNS, 1))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "user", "content": "one?"},
            {"role": "assistant", "content": "one."},
            {"role": "user", "content": "two?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    await model.close()


async def test_a_beginning_stands_last_as_the_assistant_s_and_is_to_be_continued() -> None:
    model = OpenAIModel("http://model/v1/", "m", None, continues=True)
    body = model._body(ModelRequest("demo", TURNS, 2, prefix="Two is "))
    assert body["messages"][-1] == {"role": "assistant", "content": "Two is "}
    assert len(body["messages"]) == 4
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    await model.close()


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (ModelOptions(), {"max_tokens": 500}),
        (ModelOptions(max_tokens=100_000), {"max_tokens": 500}),
        (ModelOptions(max_completion_tokens=100_000), {"max_completion_tokens": 500}),
        (ModelOptions(max_tokens=7), {"max_tokens": 7}),
    ],
)
async def test_the_longest_answer_is_a_bound(asked: ModelOptions, sent: dict[str, int]) -> None:
    model = OpenAIModel("http://model/v1/", "m", None, max_tokens=500)
    body = model._body(ModelRequest("demo", TURNS, 1, options=asked))
    assert {name: value for name, value in body.items() if name.startswith("max_")} == sent
    await model.close()


async def test_the_bound_is_the_setting() -> None:
    settings = HandlerSettings.model_validate(
        {"model": "openai", "model_url": "http://model/v1", "model_max_tokens": 500}
    )
    model = make_token_source(settings, HandTurnedClock().delivery)
    assert isinstance(model, OpenAIModel)
    assert model._body(ModelRequest("demo", TURNS, 1))["max_tokens"] == 500
    await model.close()


async def test_the_options_go_along() -> None:
    model = OpenAIModel("http://model/v1/", "m", None)
    options = ModelOptions(max_tokens=5, temperature=0, stop=("a", "b"), seed=0)
    body = model._body(ModelRequest("demo", TURNS, 1, options=options))
    assert (body["max_tokens"], body["temperature"], body["stop"], body["seed"]) == (
        5,
        0,
        ("a", "b"),
        0,
    )
    assert not {"top_p", "max_completion_tokens"} & body.keys()
    await model.close()


async def test_tools_go_along_as_they_came() -> None:
    model = OpenAIModel("http://model/v1/", "m", None)
    tool = {"type": "function", "function": {"name": "add"}}
    calls = (ToolCall("c1", "add", "{"),)
    turns = (*TURNS, Turn("assistant", "", calls), Turn("tool", "4", tool_call_id="c1"))
    options = ModelOptions(tools=(tool,), tool_choice="required", parallel_tool_calls=False)
    body = model._body(ModelRequest("demo", turns, 1, options=options))
    assert body["tools"] == (tool,)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    made = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{"}}
    assert body["messages"][3:] == [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
    ]
    await model.close()


async def test_everything_else_goes_along_as_it_came() -> None:
    model = OpenAIModel("http://model/v1/", "m", None)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    turns = (
        Turn("user", "", parts=(image,), extra={"name": "Ann"}),
        Turn("assistant", "", extra={"refusal": "No.", "reasoning_content": "Hm."}),
        Turn("function", "4", extra={"name": "add"}),
    )
    passed = {
        "n": 2,
        "top_k": 5,
        "stream": False,
        "stream_options": {"continuous_usage_stats": True},
    }
    body = model._body(ModelRequest("demo", turns, 1, options=ModelOptions(passed=passed)))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "user", "content": [image], "name": "Ann"},
            {"role": "assistant", "content": None, "refusal": "No.", "reasoning_content": "Hm."},
            {"role": "function", "content": "4", "name": "add"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "n": 2,
        "top_k": 5,
    }
    await model.close()
