"""The first calls that people make: curl and Python without a model's name, by every protocol."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Any

import aiohttp
import pytest
import requests

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import HttpAnswer, call, demo, open_session
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer

_QUESTION = demo(tokens=5, gap_ms=1, seed=3)
_ANSWER = "".join(demo_tokens(3, 5))
_MESSAGES = [{"role": "user", "content": _QUESTION}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _MESSAGES},
    "/v1/responses": {"input": _QUESTION},
    "/v1/messages": {"messages": _MESSAGES, "max_tokens": 100},
}


async def test_curl_streams_without_a_model(shared_server: LocalServer) -> None:
    curl = shutil.which("curl")
    assert curl, "no curl: `apt-get install curl`"
    process = await asyncio.create_subprocess_exec(
        curl,
        "-sN",
        "-X",
        "POST",
        f"{shared_server.http_url}/v1/chat/completions",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps({"messages": _MESSAGES, "stream": True}),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    data = [line[6:] for line in output.decode().splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    chunks = [json.loads(each) for each in data[:-1]]
    assert {chunk["model"] for chunk in chunks} == {"demo"}
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == _ANSWER


def _read(url: str) -> str:
    """As one reads a stream with `requests`."""
    text = ""
    body: dict[str, Any] = {
        "messages": _MESSAGES,
        "stream": True,
        "temperature": 0.2,
        "max_tokens": 100,
    }
    with requests.post(url, json=body, stream=True, timeout=20) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            text += chunk["choices"][0]["delta"].get("content") or ""
    return text


async def test_python_streams_without_a_model(shared_server: LocalServer) -> None:
    url = f"{shared_server.http_url}/v1/chat/completions"
    assert await asyncio.to_thread(_read, url) == _ANSWER


@pytest.mark.parametrize("path", BODIES)
async def test_every_protocol_names_the_only_model(
    http: aiohttp.ClientSession, shared_server: LocalServer, path: str
) -> None:
    answer = await call(http, "POST", f"{shared_server.http_url}{path}", BODIES[path])
    assert answer.status == 200, answer.body
    assert answer.json["model"] == "demo"
    assert _ANSWER in answer.body.decode()


async def test_the_websocket_of_responses_names_the_only_model(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    async with http.ws_connect(f"{shared_server.http_url}/v1/responses") as socket:
        await socket.send_json({"type": "response.create", "input": _QUESTION})
        event = await socket.receive_json(timeout=10)
        assert (event["type"], event["response"]["model"]) == ("response.created", "demo")


async def _asked(
    http: aiohttp.ClientSession, server: LocalServer, path: str, credential: str = "any"
) -> HttpAnswer:
    headers = {"Authorization": f"Bearer {credential}"}
    return await call(http, "POST", f"{server.http_url}{path}", BODIES[path], headers=headers)


@pytest.mark.parametrize("path", BODIES)
async def test_of_several_models_the_agent_s_is_taken_and_otherwise_one_must_be_named(
    http: aiohttp.ClientSession, serve: Serve, path: str
) -> None:
    agents = {"free": {}, "expert": {"model": "large"}}
    server = await serve(models="small=,large=", agents_json=json.dumps(agents))
    refused = await _asked(http, server, path)
    assert refused.status == 400
    error = refused.json["error"]
    assert error["param"] == "model"
    assert "small, large" in error["message"]
    session = await open_session(http, server.http_url, agent="expert")
    answer = await _asked(http, server, path, session.token)
    assert (answer.status, answer.json["model"]) == (200, "large")
