"""The cookie WSID on the wire: every answer that a client gets binds it to this task, and a task
that is full lets it go.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http.cookies import Morsel, SimpleCookie

import aiohttp
import pytest
from websockets.exceptions import InvalidStatus

from tests.integration.chat_client import ChatSession, HttpAnswer, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer


def _cookie(header: str | None) -> Morsel[str]:
    assert header is not None
    cookies = SimpleCookie(header)
    assert list(cookies) == ["WSID"]
    return cookies["WSID"]


def _checked(header: str | None, secure: bool = False) -> str:
    """The node that a cookie binds to, after a check of all that it says."""
    cookie = _cookie(header)
    expires_at = parsedate_to_datetime(cookie["expires"]).timestamp()
    assert expires_at == pytest.approx(time.time() + 3600, abs=10)
    assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == ("/", "Lax", True)
    assert bool(cookie["secure"]) is secure
    assert cookie.value
    return cookie.value


def _released(header: str | None) -> bool:
    cookie = _cookie(header)
    return cookie.value == "" and parsedate_to_datetime(cookie["expires"]).timestamp() == 0


async def _answers(session: ChatSession, http: aiohttp.ClientSession) -> list[HttpAnswer]:
    """One answer of every kind."""
    posted = await session.post("m1", None, demo(tokens=3, gap_ms=1))
    response_id = posted.json["response_id"]
    return [
        await call(http, "POST", f"{session.http_url}/session", {}),
        posted,
        await session.poll(response_id),
        await session.call("POST", f"/chat/message/{response_id}/cancel"),
        await session.post("m9", "m8", "out of order"),
        await session.call("GET", "/no/such/path"),
        await call(http, "GET", f"{session.http_url}/chat/message/{response_id}"),
        await call(http, "DELETE", f"{session.http_url}/session"),
        await call(http, "POST", f"{session.http_url}/session", b"{"),
    ]


async def test_every_answer_binds_to_the_same_node(
    opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    session = await opened()
    answers = await _answers(session, http)
    assert {answer.status for answer in answers} >= {200, 201, 202, 400, 401, 404, 405, 409}
    nodes = {_checked(answer.headers.get("Set-Cookie")) for answer in answers}
    async with session.connect() as connection:
        response = connection.websocket.response
        assert response is not None
        nodes.add(_checked(response.headers["Set-Cookie"]))
    start = (await session.post("m2", "m1", demo(tokens=3, gap_ms=1))).json
    async with session.events(start["response_id"]) as stream:
        nodes.add(_checked(stream.headers.get("Set-Cookie")))
    assert len(nodes) == 1


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_what_no_client_sees_sets_no_cookie(
    http: aiohttp.ClientSession, shared_server: LocalServer, path: str
) -> None:
    answer = await call(http, "GET", shared_server.http_url + path)
    assert answer.status == 200
    assert "Set-Cookie" not in answer.headers


async def test_where_clients_come_by_https_the_cookie_is_for_https_only(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(cookie_secure="true")
    session = await opened(server)
    assert _checked((await session.post("m1", None, "hi")).headers.get("Set-Cookie"), secure=True)
    async with session.connect() as connection:
        response = connection.websocket.response
        assert response is not None
        assert _checked(response.headers["Set-Cookie"], secure=True)


async def test_two_nodes_have_two_names(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    names = set()
    for _ in range(2):
        answer = await call(http, "POST", f"{(await serve()).http_url}/session", {})
        names.add(_checked(answer.headers.get("Set-Cookie")))
    assert len(names) == 2


async def test_a_full_node_lets_its_clients_go(opened: OpenSession, serve: Serve) -> None:
    server = await serve(connections_per_node=1)
    session = await opened(server)
    async with session.connect():
        with pytest.raises(InvalidStatus) as refused:
            async with session.connect():
                pass
        assert refused.value.response.status_code == 503
        assert _released(refused.value.response.headers["Set-Cookie"])
        polled = await session.poll("rsp_none")
        assert _released(polled.headers.get("Set-Cookie"))
    await server.until_metric("ws_active_connections", 0)
    assert _checked((await session.poll("rsp_none")).headers.get("Set-Cookie"))
