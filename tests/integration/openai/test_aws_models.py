"""Requests of OpenAI's API to models on AWS: what they are given of them, and what is refused by
name.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.bedrock_request import _left_out
from tests.integration.answer import Frame
from tests.integration.aws_models.events import MESSAGE_START, bedrock_end, tool_use
from tests.integration.aws_models.model_server import ModelServer, model_server
from tests.integration.aws_models.reply import sends
from tests.integration.aws_models.services import BEDROCK, SAGEMAKER_VLLM, Service
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Completions, asking
from tests.integration.openai.conftest import At

_PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(200_000)
_IMAGE = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{base64.b64encode(_PNG).decode()}"},
}
_LONG = "".join(random.Random(2).choices("abcdefgh \n", k=1_000_000))
_MESSAGES: list[Frame] = [
    {"role": "system", "content": _LONG},
    {"role": "user", "content": [{"type": "text", "text": "What is on it?"}, _IMAGE]},
]
# aiohttp warns of a megabyte given to it as bytes, as the AWS SDK gives all that it sends.
_LARGE = pytest.mark.filterwarnings("ignore:Sending a large body")
_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "person", "schema": _SCHEMA, "strict": True},
}


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[ModelServer]:
    """The model server, which whatever is opened calls."""
    async with model_server() as serving:
        nowhere = str(tmp_path / "none")
        files = {"AWS_CONFIG_FILE": nowhere, "AWS_SHARED_CREDENTIALS_FILE": nowhere}
        for name, value in (files | serving.environment).items():
            monkeypatch.setenv(name, value)
        yield serving


async def _served(service: Service, serve: Serve) -> LocalServer:
    return await serve(model=service.model, model_name="a-model", models="m=")


@pytest.fixture
async def bedrock_server(serve: Serve, model: ModelServer) -> LocalServer:
    model.will(sends(*BEDROCK.answer(["yes"])))
    return await _served(BEDROCK, serve)


@pytest.fixture
def bedrock(at: At, bedrock_server: LocalServer) -> Completions:
    return at(bedrock_server)


@pytest.fixture
async def sagemaker(at: At, serve: Serve, model: ModelServer) -> Completions:
    model.will(sends(*SAGEMAKER_VLLM.answer(["yes"]), headers=SAGEMAKER_VLLM.headers))
    return at(await _served(SAGEMAKER_VLLM, serve))


async def _message(completions: Completions, body: Frame) -> Frame:
    answer = await completions.post({"model": "m"} | body)
    assert answer.status == 200, answer.json
    choice: Frame = answer.json["choices"][0]
    return choice


@_LARGE
async def test_bedrock_is_given_a_megabyte_and_an_image(
    bedrock: Completions, model: ModelServer
) -> None:
    assert (await _message(bedrock, {"messages": _MESSAGES}))["message"]["content"] == "yes"
    asked = model.requests[0]
    assert asked["system"] == [{"text": _LONG}]
    image = {"format": "png", "source": {"bytes": base64.b64encode(_PNG).decode()}}
    assert asked["messages"] == [
        {"role": "user", "content": [{"text": "What is on it?"}, {"image": image}]}
    ]


@_LARGE
async def test_sagemaker_is_given_a_megabyte_and_an_image(
    sagemaker: Completions, model: ModelServer
) -> None:
    assert (await _message(sagemaker, {"messages": _MESSAGES}))["message"]["content"] == "yes"
    assert model.requests[0]["messages"] == _MESSAGES


async def test_sagemaker_is_given_every_parameter_as_it_came(
    sagemaker: Completions, model: ModelServer
) -> None:
    parameters: Frame = {
        "response_format": _FORMAT,
        "logit_bias": {"1": 2},
        "top_k": 5,
        "of_tomorrow": [None],
    }
    await _message(sagemaker, asking("x", model="m", **parameters))
    assert {name: model.requests[0][name] for name in parameters} == parameters


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_is_what_bedrock_answers_in(
    bedrock: Completions, model: ModelServer, stream: bool
) -> None:
    events = [
        MESSAGE_START,
        tool_use(0, "t1", "person", '{"name"', ': "Ann"}'),
        bedrock_end("tool_use"),
    ]
    model.will(sends(*events))
    if stream:
        streamed = await bedrock.stream("Who?", model="m", response_format=_FORMAT)
        said, reason = streamed.text, streamed.finish_reason
    else:
        choice = await _message(bedrock, asking("Who?", model="m", response_format=_FORMAT))
        said, reason = choice["message"]["content"], choice["finish_reason"]
        assert "tool_calls" not in choice["message"]
    assert (json.loads(said), reason) == ({"name": "Ann"}, "stop")
    assert model.requests[0]["toolConfig"] == {
        "tools": [{"toolSpec": {"name": "person", "inputSchema": {"json": _SCHEMA}}}],
        "toolChoice": {"tool": {"name": "person"}},
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("parameters", "code", "param"),
    [
        ({"logit_bias": {"1": 2}}, "unsupported_parameter", "logit_bias"),
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}],
                    }
                ]
            },
            "unsupported_value",
            "messages.0.content.0",
        ),
    ],
)
async def test_what_would_change_the_answer_bedrock_refuses_by_name(
    bedrock: Completions,
    model: ModelServer,
    parameters: dict[str, Any],
    code: str,
    param: str,
    stream: bool,
) -> None:
    refused = await bedrock.post(asking("x", model="m", stream=stream) | parameters)
    assert (refused.status, refused.error["code"], refused.error["param"]) == (400, code, param)
    assert refused.error["type"] == "invalid_request_error"
    assert not model.requests


async def test_what_says_nothing_about_the_answer_is_logged_once(
    bedrock: Completions, bedrock_server: LocalServer
) -> None:
    _left_out.cache_clear()  # once a process, and tests share one
    for _ in range(3):
        await _message(bedrock, asking("x", model="m", user="u-1", service_tier="auto"))
    assert bedrock_server.log.count("user of a request is left out") == 1
    assert "u-1" not in bedrock_server.log
