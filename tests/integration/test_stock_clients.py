"""Clients that people have already, as they come: curl, the library websockets as its
documentation shows it, and ws.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import ChatSession, chat_message, demo
from tests.integration.conftest import OpenSession, Serve

_WEB = Path(__file__).parents[2] / "web"
_SLOWLY = demo(tokens=150, gap_ms=20, seed=96)
_SLOWLY_TEXT = "".join(demo_tokens(96, 150))
_SLOWLY_SECONDS = 4


# -- curl ------------------------------------------------------------------------------------------


def curl(session: ChatSession, response_id: str, *options: str) -> list[str]:
    """The command line for a response's events."""
    found = shutil.which("curl")
    assert found, "no curl: `apt-get install curl`"
    url = f"{session.http_url}/chat/message/{response_id}/events"
    return [
        found,
        "--silent",
        "--show-error",
        "-N",
        url,
        "-H",
        f"Authorization: Bearer {session.token}",
        *options,
    ]


@asynccontextmanager
async def running(command: list[str]) -> AsyncIterator[AsyncIterator[tuple[str, Frame]]]:
    """Id and data of each event that it prints, as they come."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield events(process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def events(lines: AsyncIterable[bytes]) -> AsyncIterator[tuple[str, Frame]]:
    event_id = ""
    async for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            yield event_id, json.loads(value)


def text_of(came: list[tuple[str, Frame]]) -> str:
    return "".join(frame["delta"] for _, frame in came if frame["type"] == "chat.response.delta")


async def test_curl_shows_the_text_while_it_is_written(opened: OpenSession, serve: Serve) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _SLOWLY)).json["response_id"]
    async with running(curl(session, response_id)) as printed:
        came = [await anext(printed) for _ in range(3)]
        server = await serve.shared()
        assert await server.metric("generations_running") == 1, (
            "the first events came only with the last one"
        )
        await serve.time_passes(_SLOWLY_SECONDS)
        came += [event async for event in printed]
    assert text_of(came) == _SLOWLY_TEXT
    *deltas, (last_id, end) = came
    assert [event_id for event_id, _ in deltas] == [str(frame["index"]) for _, frame in deltas]
    assert (last_id, end["type"]) == (f"{end['last_index']}.end", "chat.response.completed")


async def test_curl_goes_on_behind_the_last_event_that_it_has(
    opened: OpenSession, serve: Serve
) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _SLOWLY)).json["response_id"]
    async with running(curl(session, response_id)) as printed:
        came = [await anext(printed) for _ in range(4)]
    async with running(
        curl(session, response_id, "-H", f"Last-Event-ID: {came[-1][0]}")
    ) as printed:
        came.append(await anext(printed))
        await serve.time_passes(_SLOWLY_SECONDS)
        came += [event async for event in printed]
    assert text_of(came) == _SLOWLY_TEXT
    ended = curl(
        session, response_id, "-H", f"Last-Event-ID: {came[-1][0]}", "-w", "%{stderr}%{http_code}"
    )
    told = await asyncio.to_thread(
        subprocess.run, ended, capture_output=True, text=True, timeout=30, check=True
    )
    assert told.stderr == "204"


async def test_curl_reads_the_documents_and_says_what_it_is_refused(opened: OpenSession) -> None:
    session = await opened()
    for name in ("openapi", "asyncapi"):
        command = ["curl", "--silent", "--fail", f"{session.http_url}/{name}.json"]
        told = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=30, check=True
        )
        assert name in json.loads(told.stdout)
    refused = await asyncio.to_thread(
        subprocess.run, curl(session, "rsp_unknown"), capture_output=True, timeout=30, check=True
    )
    assert json.loads(refused.stdout)["error"]["code"] == "response_not_found"


# -- websockets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_header", [False, True], ids=["subprotocol", "header"])
async def test_websockets_as_its_documentation_shows_it(
    opened: OpenSession, serve: Serve, in_header: bool
) -> None:
    session = await opened()
    how: dict[str, Any] = (
        {"additional_headers": {"Authorization": f"Bearer {session.token}"}}
        if in_header
        else {"subprotocols": ["evenflow.v1", f"bearer.{session.token}"]}
    )
    text = ""
    async with connect(session.ws_url, **how) as websocket:
        await websocket.send(
            json.dumps({"type": "chat.message", **chat_message("m1", None, _SLOWLY)})
        )
        await serve.time_passes(_SLOWLY_SECONDS)
        async for message in websocket:
            frame = json.loads(message)
            if frame["type"] == "chat.response.delta":
                text += frame["delta"]
            if frame["type"] == "chat.response.completed":
                await websocket.close()
    assert text == _SLOWLY_TEXT
    with pytest.raises(ConnectionClosedOK):
        await websocket.recv()


# -- ws, for Node.js -------------------------------------------------------------------------------

_CLOSES_AS_IT_LIKES = """
const WebSocket = require("ws");
const [, url, token, ...close] = process.argv;
const socket = new WebSocket(url, ["evenflow.v1", `bearer.${token}`]);
socket.on("message", () => socket.close(...close.map((code) => Number(code))));
socket.on("error", (error) => console.log(JSON.stringify({error: error.message})));
socket.on("close", (code) => console.log(JSON.stringify({code})));
"""


@pytest.mark.parametrize(
    ("close", "heard"), [([], 1005), (["1000"], 1000), (["4321"], 4321)], ids=str
)
async def test_ws_is_answered_with_its_own_code(
    opened: OpenSession, close: list[str], heard: int
) -> None:
    """An empty close frame too, which `close()` sends: an answer of 0 is an error to it, and
    then 1002 or 1006 is heard.
    """
    session = await opened()
    assert (_WEB / "node_modules" / "ws").is_dir(), "no ws: `npm ci` in web/"
    command = ["node", "-e", _CLOSES_AS_IT_LIKES, session.ws_url, session.token, *close]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=_WEB, capture_output=True, text=True, timeout=30, check=True
    )
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"code": heard}], ran.stderr
