"""Heartbeats: a client that has vanished is let go, one that answers stays."""

from __future__ import annotations

import pytest

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import PING, PONG, TEXT, RawWebSocket, client_frame


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server with short heartbeats."""
    return await serve(heartbeat_seconds=0.5, pong_timeout_seconds=2)


async def test_one_that_never_answers_is_closed_and_deregistered(
    opened: OpenSession, server: LocalServer, serve: Serve
) -> None:
    session = await opened(server)
    async with session.connect() as connection, await RawWebSocket.connect(server.port) as raw:
        assert connection.ready["limits"]["pong_timeout_seconds"] == 2
        assert await raw.handshake(session.token) == 101
        await server.until_metric("ws_active_connections", 2)
        await serve.time_passes(3)
        kinds = []
        while (frame := await raw.frame()).opcode != 0x8:
            kinds.append(frame.opcode)
        assert frame.close_code == 4010
        assert PING in kinds
        await raw.ended()
        # The websockets library answers pings by itself.
        await server.until_metric("ws_active_connections", 1)
        assert await server.metric("ws_dead_connections_rate_part_total") == 1
        await serve.time_passes(3)
        assert (await connection.ask("m1", None, demo(tokens=3, gap_ms=1))).finish_reason == "stop"


async def test_one_whose_socket_takes_nothing_is_deregistered(
    opened: OpenSession, server: LocalServer, serve: Serve
) -> None:
    session = await opened(server)
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
        assert await raw.handshake(session.token) == 101
        raw.write(
            client_frame(
                TEXT,
                b'{"type":"chat.message","message_id":"m1","payload":{"text":"#demo tokens=60000 '
                b'gap_ms=0"}}',
            )
        )
        await raw.drain()
        await server.until_metric("ws_active_connections", 1)
        await serve.time_passes(6)
        await server.until_metric("ws_active_connections", 0)


@pytest.mark.parametrize(("opcode", "payload"), [(PONG, b""), (TEXT, b"?"), (PING, b"")])
async def test_anything_that_is_heard_keeps_a_connection(
    opened: OpenSession, server: LocalServer, serve: Serve, opcode: int, payload: bytes
) -> None:
    session = await opened(server)
    async with await RawWebSocket.connect(server.port) as raw:
        assert await raw.handshake(session.token) == 101
        for _ in range(8):
            raw.write(client_frame(opcode, payload))
            await serve.time_passes(0.4)
        assert await server.metric("ws_active_connections") == 1
    await server.until_metric("ws_active_connections", 0)


async def test_a_reader_that_vanishes_leaves_its_response(
    opened: OpenSession, serve: Serve
) -> None:
    """Without a FIN its response is cancelled after the pong timeout and the grace period."""
    server = await serve(heartbeat_seconds=0.5, pong_timeout_seconds=2, grace_seconds=0.5)
    session = await opened(server)
    async with await RawWebSocket.connect(server.port) as raw:
        assert await raw.handshake(session.token) == 101
        raw.write(
            client_frame(
                TEXT,
                b'{"type":"chat.message","message_id":"m1","payload":{"text":"#demo tokens=9000 '
                b'gap_ms=50"}}',
            )
        )
        start = await raw.next_of("chat.response.start")
        await server.until_metric("generations_running", 1)
        await serve.time_passes(5)
        await server.until_metric("generations_running", 0)
    assert (await session.poll(start["response_id"])).json["status"] == "cancelled"
