"""What a client of the Responses WebSocket sends is in the memory account, from its first bytes."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.fairness.fair_queue import Line
from evenflow.stream_core.policy.limits import Limits
from evenflow.stream_core.protocol.client_session import Opcode
from evenflow.stream_core.protocol.ending_frames import CloseCode
from evenflow.stream_core.protocol.routes import RESPONSES_WEBSOCKET
from tests.integration.raw_websocket import client_frame
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory, connected
from tests.unit.settle import settle

_MEBIBYTE = 1_048_576
_SMALL = Limits(requests_held_bytes=_MEBIBYTE, request_bytes=_MEBIBYTE)


async def _send(sock: SocketInMemory, data: bytes) -> None:
    """Send all of it, as far as it is read."""
    while data and not sock.closing:
        data = sock.receive(data)
        await asyncio.sleep(0)


def _held(gateway: Gateway) -> int:
    return gateway.orchestrator.memory.requests.bytes


def _closed_with(sock: SocketInMemory) -> int:
    """The code of the close frame that came last."""
    place = sock.sent.rindex(0x88)
    return int.from_bytes(sock.sent[place + 2 : place + 4], "big")


async def test_a_frame_that_is_coming_is_counted_until_its_connection_is_gone() -> None:
    gateway = Gateway()
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    await _send(sock, client_frame(Opcode.TEXT, b"x" * _MEBIBYTE)[: _MEBIBYTE // 2])
    assert _held(gateway) >= _MEBIBYTE // 2
    sock.lose()
    await settle()
    assert _held(gateway) == 0


async def test_fragments_are_counted_too() -> None:
    gateway = Gateway()
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    for opcode in (Opcode.TEXT, Opcode.CONTINUATION):
        await _send(sock, client_frame(opcode, b"x" * 100_000, final=False))
    assert _held(gateway) >= 200_000
    sock.lose()
    await settle()
    assert _held(gateway) == 0


@pytest.mark.parametrize("final", [True, False])
async def test_for_what_there_is_no_room_the_connection_is_closed(final: bool) -> None:
    gateway = Gateway(_SMALL)
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    for opcode in (Opcode.TEXT, Opcode.CONTINUATION):
        await _send(sock, client_frame(opcode, b"x" * 500_000, final=final))
    assert _closed_with(sock) == CloseCode.OVER_CAPACITY
    sock.lose()
    await settle()
    assert _held(gateway) == 0


@pytest.mark.parametrize("fragments", [1, 4])
async def test_a_message_that_is_larger_than_a_body_is_refused(fragments: int) -> None:
    gateway = Gateway(Limits(request_bytes=400_000))
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    piece = b"x" * (500_000 // fragments)
    for number in range(fragments):
        opcode = Opcode.CONTINUATION if number else Opcode.TEXT
        await _send(sock, client_frame(opcode, piece, final=number == fragments - 1))
    assert _closed_with(sock) == CloseCode.TOO_LARGE
    sock.lose()


async def test_where_memory_is_scarce_an_idle_connection_gives_its_buffer_up() -> None:
    looks_in_every_turn = _SMALL.model_copy(update={"heartbeat_seconds": 0.0})
    gateway = Gateway(looks_in_every_turn)
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    await _send(sock, client_frame(Opcode.TEXT, b"{" + b" " * 300_000))
    for _ in ("its bounds are checked", "it is read"):
        await settle()
        await gateway.context.work.run(Line("public"), _MEBIBYTE, int)  # behind it
    await settle()
    assert _closed_with(sock) == CloseCode.GOING_AWAY
    sock.lose()
    await settle()
    assert _held(gateway) == 0
