"""Who may open a WebSocket, and how a refusal looks."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import jwt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.integration.answer import Frame
from tests.integration.chat_client import V1, ChatSession, call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.server_process import ServerProcess

_KEY = "a-signing-key-of-thirty-two-bytes-or-more"
_OTHER_KEY = "another-key-that-nobody-gave-to-the-server"


async def _refusal(
    url: str, protocols: list[str] | None = None, authorization: str | None = None
) -> tuple[int, Frame, dict[str, str]]:
    headers = {"Authorization": authorization} if authorization else None
    offered = [Subprotocol(name) for name in protocols] if protocols else None
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, subprotocols=offered, additional_headers=headers, proxy=None):
            pass
    response = refused.value.response
    body: Frame = json.loads(response.body)
    return (
        response.status_code,
        checked_error(body),
        {name.lower(): value for name, value in response.headers.raw_items()},
    )


def _claims(session: ChatSession) -> Frame:
    return jwt.decode(session.token, options={"verify_signature": False})


@pytest.fixture(scope="module")
def signing_server(serve_module: Serve) -> ServerProcess:
    """A server whose signing key the tests know."""
    return serve_module(token_keys=f"k1:{_KEY}")


# -- tokens ------------------------------------------------------------------------------------------------------


async def test_the_token_may_come_in_the_authorization_header(opened: OpenSession) -> None:
    session = await opened()
    headers = {"Authorization": f"Bearer {session.token}"}
    async with connect(
        session.ws_url, subprotocols=[Subprotocol(V1)], additional_headers=headers, proxy=None
    ) as websocket:
        assert websocket.subprotocol == V1
        assert json.loads(await websocket.recv())["session_id"] == session.session_id


async def test_no_token(opened: OpenSession) -> None:
    session = await opened()
    status, error, _ = await _refusal(session.ws_url, [V1])
    assert (status, error["type"], error["code"]) == (401, "authentication_error", "token_missing")


@pytest.mark.parametrize("token", ["garbage", "a.b.c", "eyJhbGciOiJIUzI1NiJ9..", "x" * 4000])
async def test_a_garbage_token(opened: OpenSession, token: str) -> None:
    session = await opened()
    for protocols, authorization in (([V1, f"bearer.{token}"], None), ([V1], f"Bearer {token}")):
        status, error, _ = await _refusal(session.ws_url, protocols, authorization)
        assert (status, error["code"]) == (401, "token_invalid")


async def test_forged_tokens(opened: OpenSession, signing_server: ServerProcess) -> None:
    session = await opened(signing_server)
    claims = _claims(session)
    head, body, signature = session.token.split(".")
    stolen = jwt.encode(claims | {"sub": "ses_of_another"}, _OTHER_KEY, "HS256", headers={"kid": "k1"})
    forged = {
        "signed by another key": jwt.encode(claims, _OTHER_KEY, "HS256", headers={"kid": "k1"}),
        "an unknown key id": jwt.encode(claims, _KEY, "HS256", headers={"kid": "k2"}),
        "no key id": jwt.encode(claims, _KEY, "HS256"),
        "alg none": jwt.encode(claims, "", "none", headers={"kid": "k1"}),
        "another algorithm": jwt.encode(claims, _KEY + _KEY, "HS512", headers={"kid": "k1"}),
        "another body": ".".join((head, stolen.split(".")[1], signature)),
        "no signature": f"{head}.{body}.",
        "another issuer": jwt.encode(claims | {"iss": "someone"}, _KEY, "HS256", headers={"kid": "k1"}),
        "no session": jwt.encode(
            {name: value for name, value in claims.items() if name != "sub"}, _KEY, "HS256", headers={"kid": "k1"}
        ),
    }
    for what, token in forged.items():
        status, error, _ = await _refusal(session.ws_url, [V1, f"bearer.{token}"])
        assert (status, error["code"]) == (401, "token_invalid"), what
        assert (
            await session.call("GET", "/chat/message/x", headers={"Authorization": f"Bearer {token}"})
        ).status == 401
    # The same claims under the right key open: what was refused above was the forgery.
    right = jwt.encode(claims, _KEY, "HS256", headers={"kid": "k1"})
    async with connect(
        session.ws_url, subprotocols=[Subprotocol(V1), Subprotocol(f"bearer.{right}")], proxy=None
    ) as websocket:
        assert json.loads(await websocket.recv())["type"] == "session.ready"


async def test_an_expired_token(opened: OpenSession, serve: Serve, http: aiohttp.ClientSession) -> None:
    server = serve(session_token_ttl_seconds=1)
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=120, gap_ms=20))
        await asyncio.sleep(max(0.0, _claims(session)["exp"] - time.time()) + 0.1)
        status, error, _ = await _refusal(session.ws_url, [V1, f"bearer.{session.token}"])
        assert (status, error["code"]) == (401, "token_expired")
        polled = await session.poll(start["response_id"])
        assert (polled.status, polled.error["code"]) == (401, "token_expired")
        # What runs goes on; a new message needs a new token.
        await connection.send("chat.message", message_id="m2", previous_message_id="m1", payload={"text": "x"})
        refused = await connection.next_of("error")
        assert (refused["message_id"], checked_error(refused)["code"]) == ("m2", "token_expired")
        renewed = await call(http, "POST", f"{server.http_url}/session", {"session_id": session.session_id})
        again = ChatSession(http, renewed.json)
        assert again.session_id == session.session_id
        async with again.connect() as fresh:
            assert fresh.ready["last_message_id"] == "m1"
            await fresh.resume(start["response_id"], -1)
            assert (await fresh.whole(start["response_id"])).finish_reason == "stop"
        assert (await connection.whole(start["response_id"])).finish_reason == "stop"


# -- subprotocols and paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [[], ["evenflow.v2"], ["chat", "mqtt"]])
async def test_no_or_an_unknown_subprotocol(opened: OpenSession, named: list[str]) -> None:
    session = await opened()
    status, error, _ = await _refusal(session.ws_url, [*named, f"bearer.{session.token}"])
    assert (status, error["type"], error["code"]) == (400, "invalid_request_error", "unsupported_subprotocol")


async def test_the_first_known_subprotocol_is_selected(opened: OpenSession) -> None:
    session = await opened()
    names = ["evenflow.v9", "evenflow.v1.compact", V1, f"bearer.{session.token}"]
    async with connect(session.ws_url, subprotocols=[Subprotocol(name) for name in names], proxy=None) as websocket:
        assert websocket.subprotocol == "evenflow.v1.compact"
        assert json.loads(await websocket.recv())["protocol"] == "evenflow.v1.compact"


async def test_subprotocols_in_several_header_lines(opened: OpenSession) -> None:
    """RFC 6455, 11.3.4: the header may appear several times, which is the same as one with all values."""
    session = await opened()
    async with await RawWebSocket.connect(int(session.ws_url.rsplit(":", 1)[1].removesuffix("/ws"))) as raw:
        raw.write(
            (
                "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
                f"Sec-WebSocket-Protocol: {V1}\r\nSec-WebSocket-Protocol: bearer.{session.token}\r\n\r\n"
            ).encode()
        )
        await raw.read_head()
        assert raw.status == 101


@pytest.mark.parametrize("path", ["/", "/wss", "/ws/", "/v2/ws", "//[", "/%00"])
async def test_an_unknown_path(opened: OpenSession, shared_server: ServerProcess, path: str) -> None:
    session = await opened()
    async with await RawWebSocket.connect(shared_server.ws_port) as raw:
        assert await raw.handshake(session.token, path=path) == 404
        error = checked_error(json.loads(await raw.read_body()))
        assert (error["type"], error["code"]) == ("not_found_error", "path_not_found")


_OLD_VERSION = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 12\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


@pytest.mark.parametrize(
    ("request_head", "in_shape"),
    [
        (b"GET /ws HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (_OLD_VERSION, True),
        # What isn't even a GET is refused by the WebSocket library, in its own words.
        (b"POST /ws HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", False),
        (b"nonsense\r\n\r\n", False),
    ],
)
async def test_no_websocket_handshake_at_all(
    opened: OpenSession, shared_server: ServerProcess, request_head: bytes, in_shape: bool
) -> None:
    session = await opened()
    async with await RawWebSocket.connect(shared_server.ws_port) as raw:
        raw.write(request_head)
        await raw.read_head()
        assert 400 <= raw.status < 500
        if in_shape:
            checked_error(json.loads(await raw.read_body()))
    async with session.connect() as connection:
        assert connection.ready


# -- capacity ----------------------------------------------------------------------------------------------------


async def test_a_full_node_refuses_and_says_so_to_the_load_balancer(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = serve(connections_per_node=2)
    session, other = await opened(server), await opened(server)
    async with session.connect() as first, other.connect():
        health = await call(http, "GET", f"{server.http_url}/health")
        assert health.status == 503
        status, error, headers = await _refusal(session.ws_url, [V1, f"bearer.{session.token}"])
        assert (status, error["type"], error["code"]) == (503, "overloaded_error", "node_full")
        assert int(headers["retry-after"]) >= 1
        assert await server.metric("ws_connections_refused_total") == 1
        assert (await first.ask("m1", None, demo(tokens=3, gap_ms=1))).finish_reason == "stop"
    await server.until_metric("ws_active_connections", 0)
    health = await call(http, "GET", f"{server.http_url}/health")
    assert (health.status, health.json["status"]) == (200, "serving")
    async with session.connect():
        pass


async def test_a_session_may_have_so_many_connections(opened: OpenSession, serve: Serve) -> None:
    server = serve(connections_per_session=2)
    session, other = await opened(server), await opened(server)
    async with session.connect() as first, session.connect():
        status, error, headers = await _refusal(session.ws_url, [V1, f"bearer.{session.token}"])
        assert (status, error["type"], error["code"]) == (429, "rate_limit_error", "session_connections")
        assert int(headers["retry-after"]) >= 1
        async with other.connect():
            pass
        async with session.connect(query="?replace=1"):
            assert await first.closed() == 4009
            async with session.connect():
                pass
