"""HTTP requests that are made to cost much, or to be answered to somebody else."""

from __future__ import annotations

import gzip
import json
import random
import time

import aiohttp
import pytest

from tests.integration.chat_client import call, chat_message, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.server_process import free_port

_QUICK = demo(tokens=3, gap_ms=1)
_COMPLETION = {"model": "demo", "messages": [{"role": "user", "content": _QUICK}]}
_GZIP = {"Content-Encoding": "gzip"}
_GARBAGE = b"\x1f\x8b" + random.Random(1).randbytes(60_000)
# 64 KB, of which a thousand times as much can be made.
_BOMB = gzip.compress(bytes(64 * 1_048_576))
_POSTS = ["/session", "/chat/message", "/v1/chat/completions", "/chat/message/rsp_1/cancel"]


def _packed(body: object) -> bytes:
    return gzip.compress(json.dumps(body).encode())


# -- compressed bodies -----------------------------------------------------------------------------


async def test_who_is_known_may_compress(
    http: aiohttp.ClientSession, opened: OpenSession, shared_server: LocalServer
) -> None:
    session = await opened(shared_server)
    message = _packed(chat_message("m1", None, _QUICK))
    assert (await session.call("POST", "/chat/message", message, headers=_GZIP)).status == 202
    completion = _packed(_COMPLETION)
    path = "/v1/chat/completions"
    assert (await session.call("POST", path, completion, headers=_GZIP)).status == 200


@pytest.mark.parametrize("path", ["/chat/message", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (_GARBAGE, "gzip", 400, "bad_request"),
        (b"{}", "gzip", 400, "bad_request"),
        (_packed(_COMPLETION)[:-1], "gzip", 400, "bad_request"),
        (_BOMB, "gzip", 413, "message_too_large"),
        (b"{}", "br", 415, "unsupported_encoding"),
        (_packed(_COMPLETION), "gzip, gzip", 415, "unsupported_encoding"),
    ],
    ids=["garbage", "plain", "cut off", "bomb", "unknown", "twice"],
)
async def test_what_can_not_be_unpacked_is_refused_in_the_one_shape(
    opened: OpenSession, serve: Serve, path: str, body: bytes, encoding: str, status: int, code: str
) -> None:
    server = await serve()
    session = await opened(server)
    answer = await session.call("POST", path, body, headers={"Content-Encoding": encoding})
    assert (answer.status, answer.error["code"]) == (status, code)
    if status == 415:
        assert answer.headers["Accept-Encoding"] == answer.error["expected"] == "gzip"
    assert "failed" not in server.log
    assert "Error" not in server.log


@pytest.mark.parametrize("path", _POSTS)
@pytest.mark.parametrize("body", [_GARBAGE, _BOMB], ids=["garbage", "bomb"])
async def test_for_who_is_not_known_nothing_is_unpacked(
    http: aiohttp.ClientSession, serve: Serve, path: str, body: bytes
) -> None:
    server = await serve()
    tries = 5
    await call(http, "GET", f"{server.http_url}/health")
    began = time.process_time()
    for _ in range(tries):
        answer = await call(http, "POST", server.http_url + path, body, headers=_GZIP)
        assert answer.status == (401 if path.startswith("/chat") else 415)
        assert answer.error["code"] in ("token_missing", "unsupported_encoding")
    # Unpacking one of these takes a fifth of a second.
    assert time.process_time() - began < 0.1 * tries
    assert "Error" not in server.log


# -- the name that is called -----------------------------------------------------------------------


async def _called(
    port: int, host: str, path: str = "/v1/models", more: str = ""
) -> tuple[int, str]:
    async with await RawWebSocket.connect(port) as raw:
        raw.write(f"GET {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n".encode())
        await raw.read_head()
        body = await raw.read_body()
        return raw.status, checked_error(json.loads(body))["code"] if raw.status >= 400 else ""


_UPGRADE = (
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nConnection: Upgrade\r\n"
)


@pytest.mark.parametrize(
    ("path", "more"), [("/v1/models", ""), ("/health", ""), ("/metrics", ""), ("/ws", _UPGRADE)]
)
async def test_on_the_loopback_a_name_that_leads_here_is_no_name_of_the_server(
    serve: Serve, path: str, more: str
) -> None:
    server = await serve()
    called = await _called(server.port, "Host: evil.example:8080\r\n", path, more)
    assert called == (403, "host_not_allowed")
    assert await server.metric('http_refused_total{code="host_not_allowed"}') == 1


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LocalHost:1"])
async def test_the_machine_s_own_names_are(shared_server: LocalServer, host: str) -> None:
    assert (await _called(shared_server.port, f"Host: {host}\r\n"))[0] == 200


async def test_a_setting_and_the_public_address_name_others(serve: Serve) -> None:
    server = await serve(
        allowed_hosts="chat.example.com,intranet", public_http_url="https://public.example/chat"
    )
    for name in ("chat.example.com", "intranet:8080", "public.example", "localhost"):
        assert (await _called(server.port, f"Host: {name}\r\n"))[0] == 200
    assert (await _called(server.port, "Host: evil.example\r\n"))[0] == 403


@pytest.mark.parametrize(
    "setting",
    [("EVENFLOW_HTTP_HOST", "0.0.0.0"), ("EVENFLOW_ALLOWED_HOSTS", "*")],  # noqa: S104
)
async def test_elsewhere_or_where_all_are_named_every_name_may_be_called(
    serve: Serve, setting: tuple[str, str]
) -> None:
    server = await serve(dict([setting]))
    assert (await _called(server.port, "Host: any.example\r\n"))[0] == 200


# -- a port for metrics ----------------------------------------------------------------------------


async def test_metrics_at_a_port_of_their_own_are_nowhere_else_and_nothing_else_is_there(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    port = free_port()
    server = await serve(metrics_port=port)
    page = await call(http, "GET", f"http://127.0.0.1:{port}/metrics")
    assert (page.status, b"evenflow_" in page.body) == (200, True)
    assert (await call(http, "GET", f"{server.http_url}/metrics")).status == 404
    assert (await call(http, "GET", f"http://127.0.0.1:{port}/v1/models")).status == 404
    assert await _called(port, "Host: localhost\r\n", "/ws", _UPGRADE) == (404, "path_not_found")
