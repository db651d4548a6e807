"""Agents: what a session chooses, what the model's server is then asked and told, and a file
that changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.chat_client import ChatSession, call
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer, refusal
from tests.integration.realtime_client import realtime
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model

AGENTS = """
[support]
model = "fast"
instructions = "You answer for Acme."
temperature = 0.2
max_tokens = 300
suggestions = ["Where is my order?"]

[impatient]
deadline_seconds = 0.5
silence_seconds = 0.4
"""
_MESSAGE = {"message_id": "m1", "payload": {"text": "hi"}}


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as serving:
        serving.will(Reply([chunk("Hello."), END]))
        yield serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agents.toml"
    path.write_text(AGENTS)
    return path


@pytest.fixture
async def server(serve: Serve, model: ScriptedModel, file: Path) -> LocalServer:
    return await serve(
        model="openai",
        model_url=model.url,
        model_name="own",
        models="fast=org/small,best=",
        agents=file,
        model_retries=0,
    )


async def _answer(session: ChatSession, message: dict[str, Any] = _MESSAGE) -> dict[str, Any]:
    posted = await session.call("POST", "/chat/message", message)
    assert posted.status == 202, posted.body
    return (await session.poll_whole(posted.json["response_id"]))[0]


async def test_a_session_s_model_is_told_what_its_agent_says(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    await _answer(await opened(server, agent="support"))
    asked = model.requests[0]
    assert asked["messages"] == [
        {"role": "system", "content": "You answer for Acme."},
        {"role": "user", "content": "hi"},
    ]
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("org/small", 0.2, 300)


async def test_the_session_is_told_its_agent_and_what_it_suggests(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    for body, agent, suggestions in (
        ({}, "support", ["Where is my order?"]),
        ({"agent": "impatient"}, "impatient", []),
    ):
        told = (await call(http, "POST", f"{server.http_url}/session", body)).json
        assert (told["agent"], told["suggestions"]) == (agent, suggestions)
    refused = await call(http, "POST", f"{server.http_url}/session", {"agent": "sales"})
    assert (refused.status, refused.error["code"]) == (404, "agent_not_found")
    assert "support, impatient" in refused.error["message"]


async def test_the_demo_model_alone_suggests_questions_about_evenflow(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    told = (await call(http, "POST", f"{shared_server.http_url}/session", {})).json
    assert told["agent"] == "demo"
    assert "What is Evenflow?" in told["suggestions"]


async def test_the_agent_s_deadlines_are_in_force(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([], then="silence"))
    ended = await _answer(await opened(server, agent="impatient"))
    assert ended["metadata"]["error"]["code"] in ("first_token_timeout", "model_timeout")


_SAID = {
    "params": {"temperature": 1.5, "max_tokens": 50, "stop": ["END"], "seed": 4, "top_p": 0.5},
    "timeout_ms": 60_000,
    "metadata": {"ticket": "Ä-7\r\nX-Evil: 1"},
}
_ASKED = {"temperature": 1.5, "max_tokens": 50, "stop": ["END"], "seed": 4, "top_p": 0.5}


@pytest.mark.parametrize("way", ["http", "websocket", "realtime"])
async def test_what_a_message_says_and_for_whom_it_is_reaches_the_model_s_server(
    opened: OpenSession, server: LocalServer, model: ScriptedModel, way: str
) -> None:
    session = await opened(server, agent="support", user="zoë")
    if way == "http":
        await _answer(session, {"message_id": "m1", "payload": {"text": "hi", **_SAID}})
    elif way == "websocket":
        async with session.connect() as connection:
            await connection.send("chat.message", message_id="m1", payload={"text": "hi", **_SAID})
            await connection.next_of("chat.response.completed")
    else:
        async with realtime(session) as connection:
            await connection.send("start", id="m1", text="hi", **_SAID)
            await connection.next_of("final")
    asked, told = model.requests[0], model.headers[0]
    assert {name: asked[name] for name in _ASKED} == _ASKED
    assert (told["Evenflow-Session"], told["Evenflow-User"]) == (session.session_id, "zo%C3%AB")
    assert (told["Evenflow-Tenant"], told["Evenflow-Message"], told["Evenflow-Attempt"]) == (
        "public",
        "m1",
        "1",
    )
    assert json.loads(told["Evenflow-Metadata"]) == _SAID["metadata"]
    assert "X-Evil" not in told


async def test_a_message_s_time_is_bounded_by_what_it_says(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("Half")], then="silence"))
    ended = await _answer(await opened(server, agent="support"), _message(timeout_ms=300))
    assert (ended["full_text"], ended["metadata"]["finish_reason"]) == ("Half", "length")


async def test_what_is_out_of_range_is_refused_by_name(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    refused = await session.call("POST", "/chat/message", _message(params={"temperature": 3}))
    assert (refused.status, refused.error["param"]) == (400, "payload.params.temperature")


async def test_a_request_of_openai_s_api_is_answered_by_the_model_that_it_names(
    http: aiohttp.ClientSession, server: LocalServer, model: ScriptedModel
) -> None:
    url = f"{server.http_url}/v1"
    listed = (await call(http, "GET", f"{url}/models")).json
    assert [known["id"] for known in listed["data"]] == ["fast", "best"]
    for name, upstream in (("fast", "org/small"), ("best", "own")):
        body = {
            "model": name,
            "messages": [{"role": "user", "content": "hi"}],
            "user": "u-1",
            "metadata": {"trace": "abc"},
        }
        answer = await call(http, "POST", f"{url}/chat/completions", body)
        assert (answer.status, answer.json["model"]) == (200, name)
        asked, told = model.requests[-1], model.headers[-1]
        assert (asked["model"], asked["messages"]) == (upstream, body["messages"])
        assert (told["Evenflow-User"], told["Evenflow-Metadata"]) == ("u-1", '{"trace":"abc"}')
        assert "Evenflow-Session" not in told
    body = {"model": "own", "messages": [{"role": "user", "content": "hi"}]}
    assert (await call(http, "POST", f"{url}/chat/completions", body)).status == 404


async def test_a_file_is_read_again_and_a_wrong_one_changes_nothing(
    http: aiohttp.ClientSession,
    opened: OpenSession,
    server: LocalServer,
    model: ScriptedModel,
    file: Path,
) -> None:
    session = await opened(server, agent="support")
    await _rewritten(
        file,
        AGENTS.replace("Acme", "Globex"),
        server,
        "the agents were read again: support, impatient",
    )
    await _answer(session)
    assert model.requests[-1]["messages"][0]["content"] == "You answer for Globex."
    await _rewritten(file, AGENTS.replace("0.2", "20"), server, "the agents stay as they are: ")
    assert "[support] temperature: must be a number from 0 to 2" in server.log
    await _answer(await opened(server, agent="support"))
    assert model.requests[-1]["messages"][0]["content"] == "You answer for Globex."
    await _rewritten(file, "[sales]\n", server, "the agents were read again: sales")
    refused = await session.call(
        "POST", "/chat/message", {**_MESSAGE, "message_id": "m2", "previous_message_id": "m1"}
    )
    assert (refused.status, refused.error["code"]) == (404, "agent_not_found")


async def test_a_wrong_file_stops_the_start(file: Path) -> None:
    await asyncio.to_thread(file.write_text, "[a]\nmax_tokens = -1\n")
    assert f"{file}: [a] max_tokens: must be a whole number from 1" in await refusal(
        {"EVENFLOW_AGENTS": str(file)}
    )
    assert "cannot be read" in await refusal({"EVENFLOW_AGENTS": str(file.parent / "none.toml")})
    assert "EVENFLOW_AGENTS_JSON: this is not JSON" in await refusal({"EVENFLOW_AGENTS_JSON": "{"})


def _message(**fields: object) -> dict[str, Any]:
    return {"message_id": "m1", "payload": {"text": "hi", **fields}}


async def _rewritten(file: Path, text: str, server: LocalServer, line: str) -> None:
    """The file is another one, and the server has seen it, of which it logs `line`."""
    await asyncio.to_thread(file.write_text, text)
    server.handler.reload_agents()
    await server.until_logged(line)
