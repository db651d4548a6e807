"""Clients of OpenAI's Realtime API: they come to `/v1/realtime`, and are told what it is and
what to use instead.
"""

from __future__ import annotations

import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError
from websockets.typing import Subprotocol

from tests.integration.local_server import LocalServer
from tests.integration.openai.conftest import openai_client


@pytest.fixture
def base_url(shared_server: LocalServer) -> str:
    """What a client is given as its base URL."""
    return f"{shared_server.http_url}/v1"


async def test_the_openai_client_shows_it_as_an_error_event_and_as_the_reason_of_the_close(
    base_url: str,
) -> None:
    client = openai_client(base_url)
    async with client, client.realtime.connect(model="gpt-realtime") as connection:
        event = await connection.recv()
        assert event.type == "error"
        assert (event.error.type, event.error.code) == (
            "invalid_request_error",
            "realtime_not_served",
        )
        assert "/v1/chat/completions" in event.error.message
        assert "/realtime" in event.error.message
        with pytest.raises(
            ConnectionClosedError, match=r"1008 .*OpenAI's Realtime API.*/v1/chat/completions"
        ):
            await connection.recv()


@pytest.mark.parametrize(
    ("query", "subprotocols", "headers"),
    [
        ("?model=gpt-realtime", [], {}),
        ("?call_id=rtc_1", [], {}),
        ("", ["realtime"], {}),
        ("", ["realtime", "openai-insecure-api-key.sk-x", "openai-beta.realtime-v1"], {}),
        ("", [], {"OpenAI-Beta": "realtime=v1"}),
    ],
    ids=["a model", "a call", "the subprotocol", "as in a browser", "the beta"],
)
async def test_it_is_known_by_any_of_its_marks(
    base_url: str, query: str, subprotocols: list[str], headers: dict[str, str]
) -> None:
    url = base_url.replace("http:", "ws:") + "/realtime" + query
    offered = [Subprotocol(name) for name in subprotocols] or None
    async with connect(
        url, subprotocols=offered, additional_headers=headers, proxy=None
    ) as websocket:
        assert websocket.subprotocol == ("realtime" if offered else None)
        event = json.loads(await websocket.recv())
        assert (event["type"], event["error"]["code"]) == ("error", "realtime_not_served")
        await websocket.wait_closed()
        assert websocket.close_code == 1008


async def test_what_it_says_meanwhile_is_no_concern(base_url: str) -> None:
    url = base_url.replace("http:", "ws:") + "/realtime?model=gpt-realtime"
    async with connect(url, proxy=None) as websocket:
        for said in ('{"type": "session.update"}', b"\x00", "x" * 100_000):
            try:
                await websocket.send(said)
            except ConnectionClosedError:
                break
        assert json.loads(await websocket.recv())["type"] == "error"
        await websocket.wait_closed()
        assert websocket.close_code == 1008
