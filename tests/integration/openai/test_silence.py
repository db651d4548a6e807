"""A model that says nothing for a while, before its first token and in the middle: no client may
take that for an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest

from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import asking
from tests.integration.openai.conftest import At
from tests.integration.openai.javascript_client import JavaScriptClient
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, event, scripted_model

_HEARTBEAT = 0.1
_SILENCE = 0.2
_ASKED = asking("x", model="openai")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as model:
        # Each piece is followed by a silence, and so is the head.
        model.will(Reply([b": \n\n", chunk("Hel"), chunk("lo"), END], gap=_SILENCE))
        yield model


@pytest.fixture
async def server(serve: Serve, model: ScriptedModel) -> LocalServer:
    return await serve(model="openai", model_url=model.url, sse_heartbeat_seconds=_HEARTBEAT)


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{server.http_url}/v1", api_key="sk-x", max_retries=0
    ) as client:
        yield client


async def test_openai_s_clients_read_a_stream_with_silences(
    client: openai.AsyncOpenAI, javascript: JavaScriptClient, server: LocalServer
) -> None:
    other = asyncio.create_task(javascript.ask(server, "stream", _ASKED))
    stream = await client.chat.completions.create(**_ASKED, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == "Hello"
    told = await other
    assert (told["text"], told["finish_reason"]) == ("Hello", "stop")


async def test_a_comment_ends_no_event(at: At, server: LocalServer) -> None:
    """An empty line behind `id:` is an event to many parsers, even where nothing came since the
    last one.
    """
    async with at(server).open("x", model="openai") as answer:
        body = (await answer.read()).decode()
    assert body.count(": still here\n") > 2
    blocks = [block for block in body.split("\n\n") if block]
    assert all("data: " in block for block in blocks)


# -- answers that are given whole ------------------------------------------------------------------


async def test_while_a_whole_answer_is_made_something_comes(at: At, server: LocalServer) -> None:
    answer = await at(server).ask("x", model="openai")
    assert answer.body.startswith(b"\n\n\n")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["x-request-id"].startswith("rsp_")
    assert answer.json["choices"][0]["message"]["content"] == "Hello"


async def test_openai_s_clients_read_it(
    client: openai.AsyncOpenAI, javascript: JavaScriptClient, server: LocalServer
) -> None:
    answer, told = await asyncio.gather(
        client.chat.completions.create(**_ASKED), javascript.ask(server, "whole", _ASKED)
    )
    assert answer.choices[0].message.content == "Hello"
    assert told["choices"][0]["message"]["content"] == "Hello"


async def test_an_answer_within_a_heartbeat_is_as_it_was(
    at: At, serve: Serve, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("Hello"), END]))
    answer = await at(await serve(model="openai", model_url=model.url)).ask("x", model="openai")
    assert answer.body.startswith(b"{")
    assert "Content-Length" in answer.headers


async def test_an_error_behind_the_head_is_the_object(
    at: At,
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    broken = event({"error": {"message": "out of memory", "type": "server_error"}})
    model.will(Reply([b": \n\n", chunk("Hel"), broken], gap=_SILENCE))
    answer, completion, told = await asyncio.gather(
        at(server).ask("x", model="openai"),
        client.chat.completions.create(**_ASKED),
        javascript.ask(server, "whole", _ASKED),
    )
    assert (answer.status, answer.error["code"]) == (200, "upstream_failed")
    assert completion.to_dict()["error"]["code"] == "upstream_failed"  # type: ignore[index]
    assert completion.choices is None, "whoever takes it for an answer fails at once"
    assert (told["error"]["code"], "choices" in told) == ("upstream_failed", False)


async def test_behind_the_head_of_a_response_it_is_a_failed_response(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    broken = event({"error": {"message": "out of memory", "type": "server_error"}})
    model.will(Reply([b": \n\n", chunk("Hel"), broken], gap=_SILENCE))
    response = await client.responses.create(model="openai", input="x")
    assert response.error is not None
    assert (response.status, response.error.code) == ("failed", "upstream_failed")
    assert response.output_text == "", "clients read it without failing"


async def test_a_deadline_behind_the_head_is_told(at: At, server: LocalServer) -> None:
    answer = await at(server).ask("x", model="openai", timeout_ms=400)
    assert (answer.status, answer.error["code"]) == (200, "timeout")
