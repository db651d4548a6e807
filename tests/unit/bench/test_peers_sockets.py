"""The comparison's WebSocket readers: a connection that fails is a failure of one reader."""

from __future__ import annotations

import asyncio

import pytest

from bench.peers.readers import Question
from bench.peers.sockets import EvenflowReader


async def test_a_server_that_closes_within_the_handshake_is_a_connection_error() -> None:
    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader = EvenflowReader(f"ws://127.0.0.1:{port}/ws", Question("q1", 1, 0, 0), {})
    with pytest.raises(ConnectionError, match="within the handshake"):
        await reader.begin()
    reader.cut()  # it has nothing to cut
    assert not reader.reading
    server.close()
