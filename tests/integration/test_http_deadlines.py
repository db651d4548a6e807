"""How long HTTP waits for a client, and who goes when there are too many connections."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket

_SHORT = 0.3
_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
_HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
_LONG_HEAD = b"GET /health HTTP/1.1\r\n" + b"X: 0123456789\r\n" * 100 + b"Y: " + b"y" * 8_000
_HALF_BODY = b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"


async def _answered(raw: RawWebSocket) -> None:
    raw.write(_HEALTH)
    await raw.read_head()
    assert raw.status == 200
    await raw.read_body()


@pytest.mark.parametrize("sent", [b"", _HALF_HEAD, _LONG_HEAD + b"\r\nZ: " + b"z" * 8_000])
@pytest.mark.parametrize("first", [True, False])
async def test_a_head_that_does_not_end_is_cut_in_time(
    sent: bytes, first: bool, serve: Serve
) -> None:
    server = await serve(head_seconds=_SHORT, keep_alive_seconds=60, trusted_proxies="10.0.0.1")
    async with await RawWebSocket.connect(server.port) as raw:
        if not first:
            await _answered(raw)
        raw.write(sent)
        if not first and not sent:
            raw.write(_HALF_HEAD)
        assert await raw.ended(5.0) == b""
    await server.until_metric('connections_cut_total{why="head"}', 1)


@pytest.mark.parametrize("path", ["/session", "/v1/chat/completions"])
async def test_half_a_body_is_answered_with_408_and_closed(path: str, serve: Serve) -> None:
    server = await serve(body_seconds=_SHORT)
    async with await RawWebSocket.connect(server.port) as raw:
        raw.write(_HALF_BODY.replace(b"/session", path.encode()))
        await raw.read_head()
        assert (raw.status, raw.headers["connection"]) == (408, "close")
        assert raw.headers["retry-after"] == "1"
        assert json.loads(await raw.read_body())["error"]["code"] == "body_timeout"
        assert await raw.ended(5.0) == b""
    await server.until_metric('connections_cut_total{why="body"}', 1)


async def test_a_large_body_may_be_slow(serve: Serve) -> None:
    server = await serve(body_seconds=_SHORT, body_bytes_per_second=1)
    body = json.dumps({"metadata": {"a": "x" * 12}}).encode()
    async with await RawWebSocket.connect(server.port) as raw:
        raw.write(
            b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        for byte in body:
            raw.write(bytes([byte]))
            await asyncio.sleep(_SHORT / 10)
        await raw.read_head()
        assert raw.status == 201


@pytest.mark.parametrize(
    ("trusted", "header", "stays"),
    [
        ("10.0.0.1", b"", False),
        ("127.0.0.1", b"", True),
        ("10.0.0.1", b"X-Forwarded-For: 1.2.3.4\r\n", True),
        ("10.0.0.1", b"via: 1.1 proxy\r\n", True),
    ],
)
async def test_a_proxys_connection_is_kept_for_longer(
    trusted: str, header: bytes, stays: bool, serve: Serve
) -> None:
    server = await serve(
        keep_alive_seconds=_SHORT, proxy_keep_alive_seconds=60, trusted_proxies=trusted
    )
    async with await RawWebSocket.connect(server.port) as raw:
        raw.write(_HEALTH.replace(b"Host: localhost\r\n", b"Host: localhost\r\n" + header))
        await raw.read_head()
        await raw.read_body()
        if not stays:
            assert await raw.ended(5.0) == b""
            return
        await asyncio.sleep(_SHORT * 3)
        await _answered(raw)


# -- room ------------------------------------------------------------------------------------------


@pytest.fixture
async def small(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> LocalServer:
    """A server that may serve 32 connections."""
    monkeypatch.setattr("evenflow.fargate_handler.node.open_files", lambda: 128)
    return await serve()


@pytest.mark.parametrize("sent", [b"", _HALF_HEAD, _HALF_BODY, _HEALTH])
async def test_a_crowd_that_waits_keeps_nobody_out(
    sent: bytes, small: LocalServer, opened: OpenSession
) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(150):
            raw = await stack.enter_async_context(await RawWebSocket.connect(small.port))
            raw.write(sent)
        await small.until_metric('connections_cut_total{why="room"}', 40, at_least=True)
        assert small.sockets <= 96
        session = await opened(small)
        async with session.connect() as connection:
            answer = await connection.ask("m1", None, demo(tokens=3, gap_ms=1))
            assert answer.finish_reason == "stop"
        async with await RawWebSocket.connect(small.port) as raw:
            await _answered(raw)
    assert small.log.count("connections were cut or refused") <= 3


@pytest.mark.parametrize("bound", ["EVENFLOW_REQUESTS_PER_NODE", "EVENFLOW_BODIES_PER_NODE"])
async def test_half_bodies_take_no_places_of_requests(bound: str, serve: Serve) -> None:
    server = await serve({bound: "20"})
    async with AsyncExitStack() as stack:
        for _ in range(60):
            raw = await stack.enter_async_context(await RawWebSocket.connect(server.port))
            raw.write(_HALF_BODY)
        await server.until_metric('connections_cut_total{why="room"}', 40)
        async with await RawWebSocket.connect(server.port) as raw:
            raw.write(_HALF_BODY.replace(b"100", b"2") + b"}")
            await raw.read_head()
            assert raw.status == 201


async def test_where_all_are_served_others_are_refused_and_health_says_so(
    small: LocalServer, opened: OpenSession
) -> None:
    session = await opened(small)
    posted = await session.post("m1", None, demo(tokens=10_000, gap_ms=50))
    events = (
        f"GET /chat/message/{posted.json['response_id']}/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {session.token}\r\n\r\n"
    ).encode()
    async with AsyncExitStack() as stack:
        for _ in range(32):
            raw = await stack.enter_async_context(await RawWebSocket.connect(small.port))
            raw.write(events)
            await raw.read_head()
            assert raw.status == 200
        for request, status in (
            (_HEALTH, 503),
            (_HEALTH.replace(b"Host", b"User-Agent: ELB-HealthChecker/2.0\r\nHost"), 200),
            (events, 503),
        ):
            async with await RawWebSocket.connect(small.port) as raw:
                raw.write(request)
                await raw.read_head()
                told = json.loads(await raw.read_body())
                assert raw.status == status
                assert told.get("status", "full") == "full"
                if request is events:
                    assert (raw.headers["connection"], raw.headers["retry-after"]) == ("close", "1")
                    assert told["error"]["code"] == "node_full"
        async with await RawWebSocket.connect(small.port) as raw:
            assert await raw.handshake(session.token) == 503
            assert json.loads(await raw.read_body())["error"]["code"] == "node_full"
    async with asyncio.timeout(10):
        while small.handler._accepted.full:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with await RawWebSocket.connect(small.port) as raw:
        await _answered(raw)
