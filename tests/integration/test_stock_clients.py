"""Clients that people have already, as they come: curl, the library websockets as its documentation shows it, and ws."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

from fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import ChatSession, chat_message, demo
from tests.integration.conftest import OpenSession

_WEB = Path(__file__).parents[2] / "web"
_SLOWLY = demo(tokens=150, gap_ms=20, seed=96)
_SLOWLY_TEXT = "".join(demo_tokens(96, 150))


# -- curl ------------------------------------------------------------------------------------------------------------


def curl(session: ChatSession, response_id: str, *options: str) -> list[str]:
    """The command line for a response's events."""
    found = shutil.which("curl")
    assert found, "no curl: `apt-get install curl`"
    url = f"{session.http_url}/chat/message/{response_id}/events"
    return [found, "--silent", "--show-error", "-N", url, "-H", f"Authorization: Bearer {session.token}", *options]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


def events(lines: Iterator[str]) -> Iterator[tuple[str, Frame]]:
    """Id and data of each event, as they come."""
    event_id = ""
    for line in lines:
        name, _, value = line.rstrip("\n").partition(": ")
        if name == "id":
            event_id = value
        elif name == "data":
            yield event_id, json.loads(value)


def text_of(came: list[tuple[str, Frame]]) -> str:
    return "".join(frame["delta"] for _, frame in came if frame["type"] == "chat.response.delta")


async def test_curl_shows_the_text_while_it_is_written(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _SLOWLY)).json["response_id"]

    def read() -> tuple[list[tuple[str, Frame]], bool]:
        with running(curl(session, response_id)) as process:
            assert process.stdout is not None
            came = []
            still_running = False
            for event in events(process.stdout):
                came.append(event)
                still_running = still_running or (len(came) == 3 and process.poll() is None)
            return came, still_running

    came, still_running = await asyncio.to_thread(read)
    assert still_running, "the first events came only with the last one"
    assert text_of(came) == _SLOWLY_TEXT
    *deltas, (last_id, end) = came
    assert [event_id for event_id, _ in deltas] == [str(frame["index"]) for _, frame in deltas]
    assert (last_id, end["type"]) == (f"{end['last_index']}.end", "chat.response.completed")


async def test_curl_goes_on_behind_the_last_event_that_it_has(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _SLOWLY)).json["response_id"]

    def read_some() -> list[tuple[str, Frame]]:
        with running(curl(session, response_id)) as process:
            assert process.stdout is not None
            return [event for _, event in zip(range(4), events(process.stdout), strict=False)]

    def read_on(last_id: str) -> subprocess.CompletedProcess[str]:
        command = curl(session, response_id, "-H", f"Last-Event-ID: {last_id}", "-w", "%{stderr}%{http_code}")
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    held = await asyncio.to_thread(read_some)
    rest = list(events(iter((await asyncio.to_thread(read_on, held[-1][0])).stdout.splitlines())))
    assert text_of(held + rest) == _SLOWLY_TEXT
    assert (await asyncio.to_thread(read_on, rest[-1][0])).stderr == "204"


async def test_curl_reads_the_documents_and_says_what_it_is_refused(opened: OpenSession) -> None:
    session = await opened()
    for name in ("openapi", "asyncapi"):
        command = ["curl", "--silent", "--fail", f"{session.http_url}/{name}.json"]
        told = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=30, check=True)
        assert name in json.loads(told.stdout)
    refused = await asyncio.to_thread(
        subprocess.run, curl(session, "rsp_unknown"), capture_output=True, timeout=30, check=True
    )
    assert json.loads(refused.stdout)["error"]["code"] == "response_not_found"


# -- websockets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_header", [False, True], ids=["subprotocol", "header"])
async def test_websockets_as_its_documentation_shows_it(opened: OpenSession, in_header: bool) -> None:
    session = await opened()
    how: dict[str, Any] = (
        {"additional_headers": {"Authorization": f"Bearer {session.token}"}}
        if in_header
        else {"subprotocols": ["evenflow.v1", f"bearer.{session.token}"]}
    )
    text = ""
    async with connect(session.ws_url, **how) as websocket:
        await websocket.send(json.dumps({"type": "chat.message", **chat_message("m1", None, _SLOWLY)}))
        async for message in websocket:
            frame = json.loads(message)
            if frame["type"] == "chat.response.delta":
                text += frame["delta"]
            if frame["type"] == "chat.response.completed":
                await websocket.close()
    assert text == _SLOWLY_TEXT
    with pytest.raises(ConnectionClosedOK):
        await websocket.recv()


# -- ws, for Node.js -------------------------------------------------------------------------------------------------

_CLOSES_AS_IT_LIKES = """
const WebSocket = require("ws");
const [, url, token, ...close] = process.argv;
const socket = new WebSocket(url, ["evenflow.v1", `bearer.${token}`]);
socket.on("message", () => socket.close(...close.map((code) => Number(code))));
socket.on("error", (error) => console.log(JSON.stringify({error: error.message})));
socket.on("close", (code) => console.log(JSON.stringify({code})));
"""


@pytest.mark.parametrize(("close", "heard"), [([], 1005), (["1000"], 1000), (["4321"], 4321)], ids=str)
async def test_ws_is_answered_with_its_own_code(opened: OpenSession, close: list[str], heard: int) -> None:
    """An empty close frame too, which `close()` sends: an answer of 0 is an error to it, and then 1002 or 1006 is heard."""
    session = await opened()
    assert (_WEB / "node_modules" / "ws").is_dir(), "no ws: `npm ci` in web/"
    command = ["node", "-e", _CLOSES_AS_IT_LIKES, session.ws_url, session.token, *close]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=_WEB, capture_output=True, text=True, timeout=30, check=True
    )
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"code": heard}], ran.stderr
