"""A long answer, for real: a handler with default settings, a model's server, 90 seconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, open_session
from tests.integration.conftest import ServeProcess, serve_process
from tests.integration.event_stream import read_answer
from tests.integration.openai.completions import Completions
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model
from tests.integration.server_process import ServerProcess

__all__ = ["serve_process"]  # a fixture

pytestmark = pytest.mark.timeout(240)

_WORDS = [f"word{number} " for number in range(90)]
_WHOLE = "".join(_WORDS)
_THINKING = [chunk(reasoning="hm")] * 40


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """The model's server."""
    async with scripted_model() as serving:
        yield serving


@pytest.fixture
def server(serve_process: ServeProcess, model: ScriptedModel) -> ServerProcess:
    """Ours in front of it."""
    return serve_process(model="openai", model_url=model.url)


async def _over_websocket(session: ChatSession) -> str:
    async with session.connect() as connection:
        start = await connection.message("m1", None, "a question")
        answer = await connection.whole(start["response_id"], seconds=150)
    assert (answer.finish_reason, answer.restarts) == ("stop", [])
    return answer.text


async def _over_events(session: ChatSession) -> str:
    response_id = (await session.post("m1", None, "a question")).json["response_id"]
    answer = Answer()
    async with session.events(response_id) as stream:
        await read_answer(stream, answer)
    assert (answer.finish_reason, answer.restarts) == ("stop", [])
    return answer.text


async def _over_polls(session: ChatSession) -> str:
    response_id = (await session.post("m1", None, "a question")).json["response_id"]
    _, text, _ = await session.poll_whole(response_id, timeout_ms=30_000)
    return text


async def _streamed(http: aiohttp.ClientSession, server: ServerProcess, name: str) -> str:
    streamed = await Completions(http, server).stream("a question", model=name)
    assert (streamed.error, streamed.finish_reason) == (None, "stop")
    return streamed.text


async def _whole(http: aiohttp.ClientSession, server: ServerProcess, name: str) -> str:
    answer = await Completions(http, server).ask("a question", model=name)
    assert answer.status == 200, answer.body
    return str(answer.json["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    "what", ["an answer of 90 seconds", "40 seconds of thinking, then the answer"]
)
async def test_a_long_answer_is_whole_over_every_transport(
    server: ServerProcess, model: ScriptedModel, what: str
) -> None:
    pieces = (
        [chunk(word) for word in _WORDS]
        if what.startswith("an answer")
        else [*_THINKING, chunk(_WHOLE)]
    )
    model.will(Reply([*pieces, END], gap=1.0))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=150)) as patient:
        sessions = [await open_session(patient, server.http_url) for _ in range(3)]
        async with patient.get(f"{server.http_url}/v1/models") as listed:
            name = json.loads(await listed.read())["data"][0]["id"]
        texts = await asyncio.gather(
            _over_websocket(sessions[0]),
            _over_events(sessions[1]),
            _over_polls(sessions[2]),
            _streamed(patient, server, name),
            _whole(patient, server, name),
        )
    assert list(texts) == [_WHOLE] * 5
    assert len(model.requests) == 5, "each was asked for once"
