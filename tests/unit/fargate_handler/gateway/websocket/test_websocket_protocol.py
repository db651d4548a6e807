"""How much is read of a WebSocket at once."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.gateway.websocket.websocket_protocol import READ_BYTES
from evenflow.stream_core.base.limits import Limits
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory, connected

_PING, _PONG = b"\x89\x80" + bytes(4), b"\x8a\x00"
_MANY = 100_000
_PATIENT = Limits(frames_per_second=_MANY)


async def _other_turn() -> None:
    await asyncio.sleep(0)


def _pongs(sock: SocketInMemory) -> int:
    return sock.sent.count(_PONG)


async def test_after_so_much_others_get_their_turn_and_then_the_rest_is_read() -> None:
    sock = connected(Gateway(_PATIENT))
    pings, turns = _PING * 5_000, 0
    while pings := sock.receive(pings):
        assert not sock.reads
        turns += 1
        assert _pongs(sock) <= turns * READ_BYTES / len(_PING) + 1
        await _other_turn()
        assert sock.reads
    assert _pongs(sock) == 5_000
    assert turns >= 5_000 * len(_PING) // READ_BYTES
    sock.lose()


async def test_a_little_is_read_without_a_pause() -> None:
    sock = connected(Gateway(_PATIENT))
    for _ in range(1_000):
        assert sock.receive(_PING) == b""
        assert sock.reads
    sock.lose()


@pytest.mark.parametrize("path", ["/ws", "/v1/realtime?model=gpt-realtime"])
async def test_of_one_that_floods_nothing_more_is_read(path: str) -> None:
    sock = connected(Gateway(Limits(frames_per_second=50)), path)
    left = sock.receive(_PING * 5_000)
    await _other_turn()
    assert not sock.reads
    assert len(sock.receive(left)) == len(left) > 20_000
    assert _pongs(sock) <= 100
    sock.lose()


async def test_a_large_message_is_read_whole() -> None:
    sock = connected(Gateway())
    text = b"?" * 60_000
    left = b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text
    while left := sock.receive(left):
        await _other_turn()
    assert b"invalid_json" in sock.sent
    sock.lose()
