"""What a client sends over a WebSocket is in the memory account, from its first bytes."""

from __future__ import annotations

import asyncio
import gc

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.routes import RESPONSES_WEBSOCKET
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.integration.raw_websocket import client_frame, text_frame
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory, connected
from tests.unit.settle import settle

_MEBIBYTE = 1_048_576
_SMALL = Limits(requests_held_bytes=_MEBIBYTE, request_bytes=_MEBIBYTE)


async def _send(sock: SocketInMemory, data: bytes) -> bytes:
    """Send all of it, as far as it is read. Returns the rest."""
    while data and sock.reads and not sock.closing:
        data = sock.receive(data)
        await asyncio.sleep(0)
    return data


def _held(gateway: Gateway) -> int:
    return gateway.orchestrator.memory.requests.bytes


def _closed_with(sock: SocketInMemory) -> int:
    """The code of the close frame that came last."""
    place = sock.sent.rindex(0x88)
    return int.from_bytes(sock.sent[place + 2 : place + 4], "big")


@pytest.mark.parametrize(("path", "size"), [("/ws", 60_000), (RESPONSES_WEBSOCKET.path, 500_000)])
async def test_a_frame_that_is_coming_is_counted_until_its_connection_is_gone(
    path: str, size: int
) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    await _send(sock, client_frame(Opcode.TEXT, b"x" * size)[:-1])
    assert _held(gateway) >= size
    sock.lose()
    await settle()
    assert _held(gateway) == 0


@pytest.mark.parametrize(("path", "size"), [("/ws", 30_000), (RESPONSES_WEBSOCKET.path, 100_000)])
async def test_fragments_are_counted_too(path: str, size: int) -> None:
    gateway = Gateway()
    sock = connected(gateway, path)
    for opcode in (Opcode.TEXT, Opcode.CONTINUATION):
        await _send(sock, client_frame(opcode, b"x" * size, final=False))
    assert _held(gateway) >= 2 * size
    sock.lose()
    await settle()
    assert _held(gateway) == 0


async def test_a_message_for_which_there_is_no_room_is_refused() -> None:
    gateway = Gateway(_SMALL)
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    await _send(sock, client_frame(Opcode.TEXT, b"{" + b"x" * 500_000))
    assert b"node_memory" in sock.sent
    assert not sock.closing
    sock.lose()


async def test_for_fragments_for_which_there_is_no_room_the_connection_is_closed() -> None:
    gateway = Gateway(_SMALL)
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    for opcode in (Opcode.TEXT, Opcode.CONTINUATION):
        await _send(sock, client_frame(opcode, b"x" * 500_000, final=False))
    assert _closed_with(sock) == CloseCode.OVER_CAPACITY
    sock.lose()
    await settle()
    assert _held(gateway) == 0


@pytest.mark.parametrize(("path", "size"), [("/ws", 60_000), (RESPONSES_WEBSOCKET.path, 900_000)])
async def test_a_closed_connection_reads_no_more_of_a_frame_and_counts_until_it_is_gone(
    path: str, size: int
) -> None:
    gateway = Gateway(_SMALL)
    gateway.orchestrator.request_memory.grow(_MEBIBYTE - size)
    sock = connected(gateway, path)
    frame = client_frame(Opcode.TEXT, b"x" * size)
    assert len(await _send(sock, frame)) > len(frame) // 3
    assert _closed_with(sock) == CloseCode.OVER_CAPACITY
    assert _held(gateway) > _MEBIBYTE - size // 2
    sock.lose()
    await settle()
    assert _held(gateway) == _MEBIBYTE - size


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


@pytest.mark.parametrize("path", ["/ws", RESPONSES_WEBSOCKET.path])
async def test_where_memory_is_scarce_an_idle_connection_gives_its_buffer_up(path: str) -> None:
    gateway = Gateway(_SMALL)
    sock = connected(gateway, path)
    await _send(sock, client_frame(Opcode.TEXT, b"{" + b" " * 60_000))
    gateway.orchestrator.request_memory.grow(_MEBIBYTE // 2)
    await settle()
    gateway.clock.turn(gateway.limits.heartbeat_seconds)
    await settle()
    assert _closed_with(sock) == CloseCode.GOING_AWAY
    sock.lose()
    await settle()
    assert _held(gateway) == _MEBIBYTE // 2


def _held_by(owner: object) -> list[ResponseStream]:
    """The responses that it refers to, itself or by one container."""
    responses = [each for each in gc.get_objects() if isinstance(each, ResponseStream)]
    near = [owner, *gc.get_referents(owner)]
    within = {id(each) for container in near for each in gc.get_referents(container)}
    return [each for each in responses if id(each) in within]


async def test_an_answer_that_is_not_stored_is_not_held_by_its_connection() -> None:
    """It goes from memory as all that has ended."""
    gateway = Gateway()
    sock = connected(gateway, RESPONSES_WEBSOCKET.path)
    (connection,) = gateway.registry
    create = {"type": "response.create", "model": "demo", "input": "hi", "store": False}
    for _ in range(2):
        await _send(sock, text_frame(create))
        await settle()
        gateway.call.push("an answer")
        assert len(_held_by(connection)) == 1, "the one that it gives"
        gateway.call.finish()
        await settle()
    assert sock.sent.count(b"response.completed") == 2
    assert _held_by(connection) == []
    sock.lose()
