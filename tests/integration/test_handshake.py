"""Who may open a WebSocket, and how a refusal looks."""

from __future__ import annotations

import asyncio
import gc
import json
import time

import aiohttp
import jwt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from evenflow.fargate_handler.gateway.connections.listener import HeadFirst
from tests.integration.answer import Frame
from tests.integration.chat_client import V1, ChatSession, call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import PING, PONG, RawWebSocket, client_frame

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


@pytest.fixture
async def signing_server(serve: Serve) -> LocalServer:
    """A server whose signing key the tests know."""
    return await serve(token_keys=f"k1:{_KEY}")


# -- tokens ----------------------------------------------------------------------------------------


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


async def test_forged_tokens(opened: OpenSession, signing_server: LocalServer) -> None:
    session = await opened(signing_server)
    claims = _claims(session)
    head, body, signature = session.token.split(".")
    stolen = jwt.encode(
        claims | {"sub": "ses_of_another"}, _OTHER_KEY, "HS256", headers={"kid": "k1"}
    )
    forged = {
        "signed by another key": jwt.encode(claims, _OTHER_KEY, "HS256", headers={"kid": "k1"}),
        "an unknown key id": jwt.encode(claims, _KEY, "HS256", headers={"kid": "k2"}),
        "no key id": jwt.encode(claims, _KEY, "HS256"),
        "alg none": jwt.encode(claims, "", "none", headers={"kid": "k1"}),
        "another algorithm": jwt.encode(claims, _KEY + _KEY, "HS512", headers={"kid": "k1"}),
        "another body": ".".join((head, stolen.split(".")[1], signature)),
        "no signature": f"{head}.{body}.",
        "another issuer": jwt.encode(
            claims | {"iss": "someone"}, _KEY, "HS256", headers={"kid": "k1"}
        ),
        "no session": jwt.encode(
            {name: value for name, value in claims.items() if name != "sub"},
            _KEY,
            "HS256",
            headers={"kid": "k1"},
        ),
    }
    for what, token in forged.items():
        status, error, _ = await _refusal(session.ws_url, [V1, f"bearer.{token}"])
        assert (status, error["code"]) == (401, "token_invalid"), what
        assert (
            await session.call(
                "GET", "/chat/message/x", headers={"Authorization": f"Bearer {token}"}
            )
        ).status == 401
    # The same claims under the right key open: what was refused above was the forgery.
    right = jwt.encode(claims, _KEY, "HS256", headers={"kid": "k1"})
    async with connect(
        session.ws_url, subprotocols=[Subprotocol(V1), Subprotocol(f"bearer.{right}")], proxy=None
    ) as websocket:
        assert json.loads(await websocket.recv())["type"] == "session.ready"


async def test_an_expired_token(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(session_token_ttl_seconds=2)
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=180, gap_ms=20))
        await asyncio.sleep(max(0.0, _claims(session)["exp"] - time.time()) + 0.1)
        status, error, _ = await _refusal(session.ws_url, [V1, f"bearer.{session.token}"])
        assert (status, error["code"]) == (401, "token_expired")
        polled = await session.poll(start["response_id"])
        assert (polled.status, polled.error["code"]) == (401, "token_expired")
        # What runs goes on; a new message needs a new token.
        await connection.send(
            "chat.message", message_id="m2", previous_message_id="m1", payload={"text": "x"}
        )
        refused = await connection.next_of("error")
        assert (refused["message_id"], checked_error(refused)["code"]) == ("m2", "token_expired")
        renewed = await call(
            http, "POST", f"{server.http_url}/session", {"session_id": session.session_id}
        )
        again = ChatSession(http, renewed.json)
        assert again.session_id == session.session_id
        async with again.connect() as fresh:
            assert fresh.ready["last_message_id"] == "m1"
            await fresh.resume(start["response_id"], -1)
            assert (await fresh.whole(start["response_id"])).finish_reason == "stop"
        assert await connection.closed() == 1000


# -- subprotocols and paths ------------------------------------------------------------------------


@pytest.mark.parametrize("named", [[], ["evenflow.v2"], ["chat", "mqtt"]])
async def test_no_or_an_unknown_subprotocol(opened: OpenSession, named: list[str]) -> None:
    session = await opened()
    status, error, _ = await _refusal(session.ws_url, [*named, f"bearer.{session.token}"])
    assert (status, error["type"], error["code"]) == (
        400,
        "invalid_request_error",
        "unsupported_subprotocol",
    )


async def test_the_first_known_subprotocol_is_selected(opened: OpenSession) -> None:
    session = await opened()
    names = ["evenflow.v9", "evenflow.v1.compact", V1, f"bearer.{session.token}"]
    async with connect(
        session.ws_url, subprotocols=[Subprotocol(name) for name in names], proxy=None
    ) as websocket:
        assert websocket.subprotocol == "evenflow.v1.compact"
        assert json.loads(await websocket.recv())["protocol"] == "evenflow.v1.compact"


async def test_subprotocols_in_several_header_lines(opened: OpenSession) -> None:
    """RFC 6455, 11.3.4: the header may appear several times, which is the same as one with all
    values.
    """
    session = await opened()
    async with await RawWebSocket.connect(
        int(session.ws_url.rsplit(":", 1)[1].removesuffix("/ws"))
    ) as raw:
        raw.write(
            (
                "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: "
                "Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                f"MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: {V1}\r\n"
                f"Sec-WebSocket-Protocol: bearer.{session.token}\r\n\r\n"
            ).encode()
        )
        await raw.read_head()
        assert raw.status == 101


@pytest.mark.parametrize("path", ["/", "/wss", "/ws/", "/v2/ws", "//[", "/%00"])
async def test_an_unknown_path(opened: OpenSession, shared_server: LocalServer, path: str) -> None:
    session = await opened()
    async with await RawWebSocket.connect(shared_server.port) as raw:
        assert await raw.handshake(session.token, path=path) == 404
        error = checked_error(json.loads(await raw.read_body()))
        assert (error["type"], error["code"]) == ("not_found_error", "path_not_found")


# -- the head of the handshake ---------------------------------------------------------------------


def _head(*lines: str, first: str = "GET /ws HTTP/1.1") -> bytes:
    return "\r\n".join([first, "Host: 127.0.0.1", *lines, "", ""]).encode()


_KEY_LINES = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==")
_UPGRADE_LINES = ("Upgrade: websocket", "Connection: Upgrade", *_KEY_LINES)
_FIREFOX = (
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-US,en;q=0.5",
    "Accept-Encoding: gzip, deflate",
    "Sec-WebSocket-Extensions: permessage-deflate",
    "DNT: 1",
    "Connection: keep-alive, Upgrade",
    "Pragma: no-cache",
    "Cache-Control: no-cache",
    "Upgrade: websocket",
    *_KEY_LINES,
)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(_FIREFOX, id="as Firefox says it"),
        pytest.param(("Upgrade: WebSocket", "Connection: UPGRADE", *_KEY_LINES), id="in capitals"),
        pytest.param(
            ("Upgrade: websocket", "Connection: Upgrade , keep-alive", *_KEY_LINES),
            id="with spaces",
        ),
        pytest.param(
            ("Upgrade: websocket", "Connection: keep-alive", "Connection: Upgrade", *_KEY_LINES),
            id="in two lines",
        ),
        pytest.param(
            ("Upgrade: h2c, websocket", "Connection: close, Upgrade", *_KEY_LINES),
            id="one of two protocols",
        ),
    ],
)
async def test_connection_and_upgrade_are_lists(
    opened: OpenSession, shared_server: LocalServer, lines: tuple[str, ...]
) -> None:
    """RFC 6455, 4.2.1: each header has to include its token, in any case of letters."""
    session = await opened()
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(_head(*lines, f"Sec-WebSocket-Protocol: {V1}, bearer.{session.token}"))
        await raw.read_head()
        assert raw.status == 101, await raw.read_body()
        assert (await raw.next_of("session.ready"))["session_id"] == session.session_id


async def test_a_head_in_small_pieces_with_the_first_frame_at_its_end(
    opened: OpenSession, shared_server: LocalServer
) -> None:
    session = await opened()
    head = _head(*_FIREFOX, f"Sec-WebSocket-Protocol: {V1}, bearer.{session.token}")
    async with await RawWebSocket.connect(shared_server.port) as raw:
        for start in range(0, len(head) - 4, 50):
            raw.write(head[start : min(start + 50, len(head) - 4)])
            await raw.drain()
            await asyncio.sleep(0)
        raw.write(head[-4:] + client_frame(PING, b"at once"))
        await raw.read_head()
        assert raw.status == 101
        while (frame := await raw.frame()).opcode != PONG:
            pass
        assert frame.payload == b"at once"


async def test_what_read_the_head_is_gone_when_the_websocket_is_open(
    opened: OpenSession, shared_server: LocalServer
) -> None:
    """It would cost each of ten thousand idle connections."""
    session = await opened()
    before = _readers_of_heads()
    async with await RawWebSocket.connect(shared_server.port) as raw:
        assert await raw.handshake(session.token) == 101
        assert _readers_of_heads() == before


def _readers_of_heads() -> int:
    gc.collect()
    return sum(isinstance(each, HeadFirst) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        pytest.param(_head(), 426, "upgrade_required", id="a plain GET"),
        pytest.param(
            _head(first="GET /v1/realtime HTTP/1.1"),
            426,
            "upgrade_required",
            id="of the other path",
        ),
        pytest.param(
            _head(*_UPGRADE_LINES, first="GET /x HTTP/1.1"),
            404,
            "path_not_found",
            id="no such path",
        ),
        pytest.param(
            _head("Upgrade: h2c", "Connection: Upgrade", *_KEY_LINES),
            426,
            "upgrade_required",
            id="h2c",
        ),
        pytest.param(
            _head("Upgrade: websocket", *_KEY_LINES),
            426,
            "upgrade_required",
            id="Connection missing",
        ),
        pytest.param(
            _head("Upgrade: websocket", "Connection: upgraded", *_KEY_LINES),
            426,
            "upgrade_required",
            id="another token",
        ),
        pytest.param(
            _head(*_UPGRADE_LINES[:2], "Sec-WebSocket-Version: 12", _KEY_LINES[1]),
            426,
            "upgrade_required",
            id="an old version",
        ),
        pytest.param(_head(*_UPGRADE_LINES[:3]), 400, "bad_request", id="no key"),
        pytest.param(
            _head(*_UPGRADE_LINES[:3], "Sec-WebSocket-Key: MDEy"),
            400,
            "bad_request",
            id="a short key",
        ),
        pytest.param(
            _head(*_UPGRADE_LINES[:3], "Sec-WebSocket-Key: \xe4"),
            400,
            "bad_request",
            id="no base64",
        ),
        pytest.param(
            _head("Content-Length: 0", first="POST /ws HTTP/1.1"),
            405,
            "method_not_allowed",
            id="POST",
        ),
        pytest.param(
            _head(*_UPGRADE_LINES, first="GET /ws HTTP/1.0"), 400, "bad_request", id="HTTP/1.0"
        ),
        pytest.param(
            _head(*_UPGRADE_LINES, first="get /ws HTTP/1.1"),
            400,
            "bad_request",
            id="small letters",
        ),
        pytest.param(_head(*_UPGRADE_LINES, " folded"), 400, "bad_request", id="a folded line"),
        pytest.param(_head(*_UPGRADE_LINES, "no colon"), 400, "bad_request", id="no colon"),
        pytest.param(
            _head(*_UPGRADE_LINES, "Na me: x"), 400, "bad_request", id="a name with a space"
        ),
        pytest.param(
            _head(*_UPGRADE_LINES, "Name: \x00"), 400, "bad_request", id="a control character"
        ),
        pytest.param(_head(*_UPGRADE_LINES, "Content-Length: 5"), 400, "bad_request", id="a body"),
        pytest.param(
            _head(*_UPGRADE_LINES, "Transfer-Encoding: chunked"),
            400,
            "bad_request",
            id="a chunked body",
        ),
        pytest.param(
            _head(*_UPGRADE_LINES, *["X: y"] * 200), 400, "bad_request", id="two hundred headers"
        ),
        pytest.param(b"nonsense\r\n\r\n", 400, "bad_request", id="nonsense"),
    ],
)
async def test_what_is_no_handshake_is_told_so_in_the_error_shape(
    shared_server: LocalServer, request_head: bytes, status: int, code: str
) -> None:
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(request_head)
        await raw.read_head()
        body = await raw.read_body()
        error = checked_error(json.loads(body))
        assert (raw.status, error["code"]) == (status, code), body
        assert raw.headers["content-type"].partition(";")[0] == "application/json"
        if status == 405:
            assert raw.headers["allow"] == "GET, HEAD"
        if status == 426:
            # RFC 9110, 15.5.22, and RFC 6455, 4.2.2.
            assert (raw.headers["upgrade"], raw.headers["sec-websocket-version"]) == (
                "websocket",
                "13",
            )


async def test_a_large_body_behind_a_handshake_does_not_hide_the_answer(
    shared_server: LocalServer,
) -> None:
    """A socket that is closed with unread bytes is reset, and the answer may be lost with it."""
    body = b"x" * 300_000
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(_head(*_UPGRADE_LINES, f"Content-Length: {len(body)}") + body)
        await raw.drain()
        await raw.read_head()
        assert raw.status == 400
        assert "no body" in checked_error(json.loads(await raw.read_body()))["message"]


# -- the upgrade as a later request ----------------------------------------------------------------


_PLAIN = _head(first="GET /v1/realtime HTTP/1.1")


@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_kept_connection_becomes_a_websocket(
    opened: OpenSession, shared_server: LocalServer, *, pipelined: bool
) -> None:
    """As a proxy does that keeps its connections to us. The first frame may be behind the head."""
    session = await opened()
    upgrade = _head(*_FIREFOX, f"Sec-WebSocket-Protocol: {V1}, bearer.{session.token}")
    upgrade += client_frame(PING, b"at once")
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(_PLAIN + _PLAIN + (upgrade if pipelined else b""))
        for _ in range(2):
            await raw.read_head()
            assert (raw.status, raw.headers.get("connection")) == (426, None)
            await raw.read_body()
        if not pipelined:
            raw.write(upgrade)
        await raw.read_head()
        assert raw.status == 101
        while (frame := await raw.frame()).opcode != PONG:
            pass
        assert frame.payload == b"at once"
    await shared_server.until_metric("ws_active_connections", 0)


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        pytest.param(_head(*_UPGRADE_LINES), 401, "token_missing", id="no token"),
        pytest.param(
            _head(*_UPGRADE_LINES, first="GET /x HTTP/1.1"), 404, "path_not_found", id="no path"
        ),
        pytest.param(_head(*_UPGRADE_LINES[:3]), 400, "bad_request", id="no key"),
        pytest.param(_head(*_UPGRADE_LINES, "Content-Length: 5"), 400, "bad_request", id="a body"),
        pytest.param(
            _head(*_UPGRADE_LINES, *[f"X{n}: {'y' * 4000}" for n in range(5)]),
            431,
            "head_too_large",
            id="too long",
        ),
        pytest.param(_head(*_UPGRADE_LINES[:1], *_KEY_LINES), 426, "upgrade_required", id="plain"),
    ],
)
async def test_a_later_handshake_is_refused_as_a_first_one(
    shared_server: LocalServer, request_head: bytes, status: int, code: str
) -> None:
    for before in (b"", _PLAIN):
        async with await RawWebSocket.connect(shared_server.port) as raw:
            raw.write(before + request_head)
            for _ in range(2 if before else 1):
                await raw.read_head()
                error = checked_error(json.loads(await raw.read_body()))
            assert (raw.status, error["code"]) == (status, code)


@pytest.mark.parametrize("before", [b"", _PLAIN])
@pytest.mark.parametrize(
    "refused", [_head(*_UPGRADE_LINES), _head(*_UPGRADE_LINES, "Content-Length: 2") + b"{}"]
)
async def test_behind_a_handshake_that_was_refused_nothing_is_answered(
    shared_server: LocalServer, before: bytes, refused: bytes
) -> None:
    """A proxy that doesn't look at the answer takes what follows for a WebSocket's."""
    async with await RawWebSocket.connect(shared_server.port) as raw:
        raw.write(before + refused + _PLAIN)
        assert (await raw.ended()).count(b"HTTP/1.1 ") == (2 if before else 1)


# -- capacity --------------------------------------------------------------------------------------


async def test_a_full_node_refuses_and_says_so_to_the_load_balancer(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(connections_per_node=2)
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
    server = await serve(connections_per_session=2)
    session, other = await opened(server), await opened(server)
    async with session.connect() as first, session.connect():
        status, error, headers = await _refusal(session.ws_url, [V1, f"bearer.{session.token}"])
        assert (status, error["type"], error["code"]) == (
            429,
            "rate_limit_error",
            "session_connections",
        )
        assert int(headers["retry-after"]) >= 1
        async with other.connect():
            pass
        async with session.connect(query="?replace=1"):
            assert await first.closed() == 4009
            async with session.connect():
                pass
