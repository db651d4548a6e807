"""The Responses API over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant
from tests.integration.chat_client import call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer

_KEY = "acme-key-0123456789"
_TEXT = "".join(demo_tokens(31, 5))
_LAST = ("response.completed", "response.failed", "response.incomplete", "error")
_CREATE = {"type": "response.create", "model": "demo", "input": demo(tokens=5, seed=31)}


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(tenant_keys=json.dumps({"acme": _KEY}))


def _opening(http: aiohttp.ClientSession, server: LocalServer, **headers: str) -> Any:
    given = {"Authorization": f"Bearer {_KEY}", **headers}
    return http.ws_connect(f"{server.http_url}/v1/responses", headers=given)


async def _events(socket: Any) -> list[dict[str, Any]]:
    """The events of one response."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in _LAST:
        events.append(await socket.receive_json())
    return events


async def test_responses_are_made_one_after_the_other(
    http: aiohttp.ClientSession, server: LocalServer, serve: Serve
) -> None:
    async with _opening(http, server) as socket:
        for _ in range(3):
            await socket.send_json(_CREATE)
        made = [await serve.time_passes_until(_events(socket)) for _ in range(3)]
    for events in made:
        assert [events[0]["type"], events[-1]["type"]] == ["response.created", _LAST[0]]
        said = [each["delta"] for each in events if each["type"] == "response.output_text.delta"]
        assert "".join(said) == _TEXT
    assert len({events[0]["response"]["id"] for events in made}) == 3


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"type": "response.steer"}, "type"),
        (_CREATE | {"generate": False}, "generate"),
        (_CREATE | {"background": True}, "background"),
        (_CREATE | {"stream_id": "a"}, "stream_id"),
        (_CREATE | {"tools": [{"type": "web_search"}]}, "tools.0"),
        (_CREATE | {"previous_response_id": "resp_1"}, "previous_response_id"),
        (["response.create"], "type"),
        (_CREATE | {"more": json.loads("[" * 400 + "]" * 400)}, "more"),
    ],
)
async def test_what_is_not_served_is_an_error_and_the_next_is_answered(
    http: aiohttp.ClientSession, server: LocalServer, serve: Serve, message: Any, param: str
) -> None:
    async with _opening(http, server) as socket:
        await socket.send_json(message)
        refused = await socket.receive_json()
        await socket.send_json(_CREATE)
        events = await serve.time_passes_until(_events(socket))
    assert (refused["type"], refused["status"], refused["param"]) == ("error", 400, param)
    assert refused["error"]["code"] == refused["code"]
    assert events[-1]["type"] == "response.completed"


async def test_too_many_that_wait_are_refused(
    http: aiohttp.ClientSession, server: LocalServer, serve: Serve
) -> None:
    async with _opening(http, server) as socket:
        for _ in range(12):
            await socket.send_json(_CREATE)
        refused = 0
        for _ in range(12):
            events = await serve.time_passes_until(_events(socket))
            codes = [event.get("code") for event in events if event["type"] == "error"]
            refused += codes == ["session_in_flight"]
            if refused and events[-1]["type"] != "error":
                break
    assert refused


async def test_what_is_not_stored_is_forgotten_with_the_connection(
    http: aiohttp.ClientSession, server: LocalServer, serve: Serve
) -> None:
    asked = _CREATE | {"store": False}
    async with _opening(http, server) as socket:
        await socket.send_json(asked)
        name = (await serve.time_passes_until(_events(socket)))[0]["response"]["id"]
        await socket.send_json(asked | {"previous_response_id": name})
        assert (await serve.time_passes_until(_events(socket)))[-1]["type"] == "response.completed"
    async with _opening(http, server) as socket:
        await socket.send_json(asked | {"previous_response_id": name})
        assert (await socket.receive_json())["code"] == "previous_response_not_found"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": "Bearer wrong"}, "invalid_api_key"),
        ({"Origin": "https://elsewhere.example"}, "origin_not_allowed"),
    ],
)
async def test_a_stranger_is_refused(
    http: aiohttp.ClientSession, server: LocalServer, headers: dict[str, str], code: str
) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    given = {"Authorization": f"Bearer {_KEY}", **upgrade, **headers}
    answer = await call(http, "GET", f"{server.http_url}/v1/responses", headers=given)
    assert answer.error["code"] == code


async def test_a_page_elsewhere_is_refused_even_where_nobody_needs_a_key(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await _opening(http, await serve(), Origin="https://elsewhere.example")
    assert refused.value.status == 403


async def test_a_message_that_is_too_large_ends_the_connection(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    async with _opening(http, server) as socket:
        await socket.send_json(_CREATE | {"input": "a" * 5_000_000})
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1009


async def test_a_message_may_be_as_large_as_a_body(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    async with _opening(http, server) as socket:
        await socket.send_json(_CREATE | {"instructions": "a" * 3_000_000})
        events = await _events(socket)  # megabytes take real time
    assert events[-1]["type"] == "response.completed"


async def test_without_an_upgrade_there_is_none(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    answer = await call(http, "GET", f"{server.http_url}/v1/responses", headers={})
    assert (answer.status, answer.error["code"]) == (426, "upgrade_required")


async def test_a_session_has_as_many_of_them_as_of_its_own_websockets(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(connections_per_session=2)
    session = await opened(server)
    given = {"Authorization": f"Bearer {session.token}"}
    async with _opening(http, server, **given), session.connect():
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _opening(http, server, **given)
        assert refused.value.status == 429


async def test_it_ends_with_its_session(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    server = await serve()
    session = await opened(server)
    async with _opening(http, server, Authorization=f"Bearer {session.token}") as socket:
        await session.call("DELETE", f"/session/{session.session_id}")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1000


async def test_who_asks_with_a_key_that_was_removed_is_refused_and_let_go(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve()
    tenants = server.handler._tenants
    tenants.replace([Tenant(id="acme", keys=(ApiKey.of_text("one", _KEY),))])
    async with _opening(http, server) as socket:
        await socket.send_json(_CREATE)
        assert (await serve.time_passes_until(_events(socket)))[-1]["type"] == _LAST[0]
        tenants.replace([Tenant(id="acme", keys=(ApiKey.of_text("two", "another"),))])
        await socket.send_json(_CREATE)
        assert (await socket.receive_json())["code"] == "token_revoked"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_socket_that_says_nothing_ends_with_its_token(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(session_token_ttl_seconds=5, heartbeat_seconds=1)
    session = await opened(server)
    async with _opening(http, server, Authorization=f"Bearer {session.token}") as socket:
        closed = asyncio.create_task(socket.receive())
        await serve.time_passes(7)
        assert (await closed).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1000
