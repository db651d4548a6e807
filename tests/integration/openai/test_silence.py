"""A model that says nothing for a while, before its first token and in the middle: no client may take that for an end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from tests.integration.conftest import Serve
from tests.integration.openai.completions import asking
from tests.integration.openai.conftest import At
from tests.integration.openai.javascript_client import JavaScriptClient
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model
from tests.integration.server_process import ServerProcess

_HEARTBEAT = 0.1
_SILENCE = 0.4
_ASKED = asking("x", model="openai")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as model:
        # Each piece is followed by a silence, and so is the head.
        model.will(Reply([b": \n\n", chunk("Hel"), chunk("lo"), END], gap=_SILENCE))
        yield model


@pytest.fixture
def server(serve: Serve, model: ScriptedModel) -> ServerProcess:
    return serve(model="openai", model_url=model.url, sse_heartbeat_seconds=_HEARTBEAT)


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.http_url}/v1", api_key="sk-x", max_retries=0) as client:
        yield client


async def test_openai_s_client_reads_a_stream_with_silences(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**_ASKED, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == "Hello"


async def test_openai_s_client_for_javascript_does_too(javascript: JavaScriptClient, server: ServerProcess) -> None:
    told = await javascript.ask(server, "stream", _ASKED)
    assert (told["text"], told["finish_reason"]) == ("Hello", "stop")


async def test_a_comment_ends_no_event(at: At, server: ServerProcess) -> None:
    """An empty line behind `id:` is an event to many parsers, even where nothing came since the last one."""
    async with at(server).open("x", model="openai") as answer:
        body = (await answer.read()).decode()
    assert body.count(": still here\n") > 2
    blocks = [block for block in body.split("\n\n") if block]
    assert all("data: " in block for block in blocks)
