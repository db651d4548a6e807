"""What a request of OpenAI's API carries to the model's server: as it came, whatever it is."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.answer import Frame
from tests.integration.conftest import Serve
from tests.integration.openai.completions import Completions, asking
from tests.integration.openai.conftest import At
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model

_MEGABYTE = 1_000_000
_PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(200_000)
_IMAGE = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{base64.b64encode(_PNG).decode()}"},
}
_SCHEMA = {
    "type": "object",
    "properties": {"b": {"type": "string"}, "a": {"type": "number"}},
    "required": ["b"],
}


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as model:
        model.will(Reply([chunk("yes"), END]))
        yield model


@pytest.fixture
async def completions(at: At, serve: Serve, model: ScriptedModel) -> Completions:
    return at(await serve(model="openai", model_url=model.url))


async def _told(completions: Completions, model: ScriptedModel, body: Frame) -> dict[str, Any]:
    """What the model's server is asked."""
    answer = await completions.post({"model": "openai"} | body)
    assert answer.status == 200, answer.json
    return model.requests[-1]


async def test_each_parameter_arrives_as_it_came(
    completions: Completions, model: ScriptedModel
) -> None:
    parameters: Frame = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": _SCHEMA, "strict": True},
        },
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "top_logprobs": 2,
        "n": 1,
        "reasoning_effort": "low",
        "verbosity": "low",
        "top_k": 20,
        "min_p": 0.05,
        "chat_template_kwargs": {"enable_thinking": False},
        "ignore_eos": True,
        "store": False,
        "metadata": {"a": "b"},
        "user": "u-1",
        "service_tier": "flex",
        "prediction": {"type": "content", "content": "x"},
        "modalities": ["text"],
        "web_search_options": {"search_context_size": "low"},
        "temperature": 3,
        "stop": list("abcdef"),
        "parameter_of_tomorrow": {"x": [1, None, "流"]},
    }
    told = await _told(completions, model, asking("hello", model="openai", **parameters))
    assert {name: told[name] for name in parameters} == parameters
    assert list(told["response_format"]["json_schema"]["schema"]["properties"]) == ["b", "a"]


async def test_of_a_stream_s_options_one_is_ours(
    completions: Completions, model: ScriptedModel
) -> None:
    await completions.stream(
        "hello", model="openai", stream_options={"continuous_usage_stats": True}
    )
    assert model.requests[-1]["stream_options"] == {
        "continuous_usage_stats": True,
        "include_usage": True,
    }


async def test_a_megabyte_and_an_image_arrive_as_they_came(
    completions: Completions, model: ScriptedModel
) -> None:
    long = "".join(random.Random(2).choices("abcdefgh \n", k=_MEGABYTE))
    messages = [
        {"role": "system", "content": long},
        {"role": "user", "content": [{"type": "text", "text": "What is on it?"}, _IMAGE]},
    ]
    assert (await _told(completions, model, {"messages": messages}))["messages"] == messages


async def test_messages_arrive_as_they_came_but_for_what_answers_alone_have(
    completions: Completions, model: ScriptedModel
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "files.read", "arguments": "{}"}}
    said: list[Frame] = [
        {"role": "user", "content": "x", "name": "Ann"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "y", "cache_control": {"type": "ephemeral"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
        {"role": "tool", "content": "z", "tool_call_id": "c1", "name": "files.read"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}],
        },
    ]
    echoed: dict[str, object] = {
        "provider_specific_fields": {"x": 1},
        "annotations": [],
        "parsed": None,
        "function_call": None,
    }
    sent = [message | echoed if message["role"] == "assistant" else message for message in said]
    tools = [
        {"type": "function", "function": {"name": "files.read"}},
        {"type": "custom", "custom": {"name": "sh"}},
    ]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}
    told = await _told(
        completions, model, {"messages": sent, "tools": tools, "tool_choice": choice}
    )
    assert (told["messages"], told["tools"], told["tool_choice"]) == (said, tools, choice)
