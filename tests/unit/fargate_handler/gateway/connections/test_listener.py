"""Who gets a connection, by its first bytes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from unittest.mock import Mock

import pytest

from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer
from evenflow.fargate_handler.gateway.connections.listener import HeadFirst
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.bounds.connection_places import ConnectionPlaces
from evenflow.stream_core.metrics.instruments import LabelledCounter

_UPGRADE = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
_PLAIN = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


class _First:
    """A connection whose bytes are the test's. `taken` says who has it, and from which bytes on."""

    def __init__(
        self,
        refusal: bytes | None = None,
        head_seconds: float = 10.0,
        turns: AddressTurns | None = None,
    ) -> None:
        self.cut = LabelledCounter(("why",))
        self.places = ConnectionPlaces[asyncio.Transport](10, 10)
        self.taken: list[tuple[str, bytes]] = []
        self.undecided: set[HeadFirst] = set()
        self.transport = Mock(spec=asyncio.Transport)
        self._refusal = refusal
        accepted = AcceptedConnections(self.places, self.cut)
        accepted.turns = turns or accepted.turns
        self.protocol = HeadFirst(self, self._http, accepted, self.undecided, head_seconds)
        self.protocol.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        """Bytes come, as the loop brings them."""
        buffer = self.protocol.get_buffer(-1)
        buffer[: len(data)] = data
        self.protocol.buffer_updated(len(data))

    def take(self, _transport: asyncio.Transport, received: bytes) -> bytes | None:
        self.taken.append(("websocket", received))
        return self._refusal

    def rejection(self, error: EvenflowError) -> bytes:
        return f"{error.status} {error.code} {error.to_object()['retry_after_ms']}".encode()

    def _http(self, _transport: asyncio.Transport, received: bytes, timer: ClientTimer) -> None:
        timer.redirect(lambda: None)
        self.taken.append(("http", received))


@pytest.mark.parametrize(
    ("received", "taker"),
    [
        (_UPGRADE, "websocket"),
        (_UPGRADE.replace(b"Upgrade: w", b"uPGRADE:h2c,W"), "websocket"),
        (_UPGRADE + b"a frame" * 5_000, "websocket"),
        (_UPGRADE.replace(b"\r\n", b"\n"), "websocket"),  # which refuses it
        (_PLAIN, "http"),
        (_PLAIN + _UPGRADE, "http"),
        (_UPGRADE.replace(b"GET", b"POST"), "http"),
        (_UPGRADE.replace(b": websocket", b": h2c"), "http"),
        (b"POST /session HTTP/1.1\r\nX: upgrade: websocket\r\n\r\n{}", "http"),
        (b"GET /" + b"x" * 20_000, "http"),
        (_UPGRADE.replace(b"Host", b"X: " + b"x" * 20_000 + b"\r\nHost"), "http"),
        (b"\x16\x03\x01", "http"),
        (b"[]", "http"),
    ],
)
async def test_the_head_decides(received: bytes, taker: str) -> None:
    first = _First()
    first.receive(received)
    assert first.taken == [(taker, received)]
    assert not first.undecided


@pytest.mark.parametrize("head", [_UPGRADE, _PLAIN, b"\r\n\r\n" + _UPGRADE])
async def test_it_comes_in_any_pieces(head: bytes) -> None:
    for size in (1, 2, 3, 50):
        first = _First()
        for start in range(0, len(head), size):
            assert first.taken == []
            assert first.undecided
            first.receive(head[start : start + size])
        assert [received for _, received in first.taken] == [head.lstrip()]


@pytest.mark.parametrize("received", [b"", b"\r\n", b"GET / HTTP/1.1\r\nX: ", b"POST /session HT"])
async def test_without_a_whole_head_it_is_closed_in_time(received: bytes) -> None:
    first = _First(head_seconds=0.0)
    if received:
        first.receive(received)
    await asyncio.sleep(0.01)
    first.transport.abort.assert_called_once_with()
    assert first.taken == []
    assert (first.cut.by_labels, len(first.places)) == ({("head",): 1}, 0)


async def test_it_has_no_such_time_once_it_was_taken() -> None:
    first = _First(head_seconds=0.001)
    first.receive(_PLAIN)
    await asyncio.sleep(0.01)
    first.transport.abort.assert_not_called()


async def test_a_refusal_is_sent_and_what_comes_then_is_read_until_the_time_ends() -> None:
    first = _First(refusal=b"no")
    first.receive(_UPGRADE)
    first.transport.write.assert_called_once_with(b"no")
    first.transport.write_eof.assert_called_once_with()
    first.receive(_UPGRADE)
    assert len(first.taken) == 1
    assert first.undecided, "it is closed in time"
    first.protocol.connection_lost(None)
    assert not first.undecided


async def _full_turns() -> AddressTurns:
    """Turns in which the handshakes of this turn of the loop have been started."""
    turns = AddressTurns(lambda: 0.0)
    for _ in range(8):
        turns.call("", lambda: True)
    return turns


async def test_a_handshake_that_waits_for_its_turn_has_a_place_and_no_deadline() -> None:
    first = _First(turns=await _full_turns(), head_seconds=0.0)
    first.transport.is_reading.return_value = True
    first.receive(_UPGRADE)
    assert first.taken == []
    assert first.places.serves(first.transport), "others are not given its place"
    first.receive(b"a frame")
    await asyncio.sleep(0.01)
    first.transport.abort.assert_not_called()  # its head came in time, the node is slow
    assert first.taken == [("websocket", _UPGRADE + b"a frame")]


async def test_while_it_waits_it_is_read_up_to_a_bound() -> None:
    first = _First(turns=await _full_turns())
    first.receive(_UPGRADE)
    first.receive(b"x" * 20_000)
    first.transport.pause_reading.assert_not_called()
    first.receive(b"x" * 20_000)
    first.transport.pause_reading.assert_called_once_with()
    first.transport.is_reading.return_value = False
    await asyncio.sleep(0)
    first.transport.resume_reading.assert_called_once_with()


async def test_one_that_leaves_while_it_waits_is_not_served() -> None:
    lost = _First(turns=await _full_turns())
    lost.receive(_UPGRADE)
    lost.protocol.connection_lost(None)
    await asyncio.sleep(0)
    assert lost.taken == []
    assert len(lost.places) == 0


async def test_one_that_would_wait_too_long_is_told_when_to_come_again() -> None:
    turns = AddressTurns(lambda: 0.0)
    with suppress(Overloaded):
        while True:
            turns.call("", lambda: True)
    first = _First(turns=turns)
    first.receive(_UPGRADE)
    (answer,) = first.transport.write.call_args.args
    status, code, wait = answer.split()
    assert (status, code) == (b"503", b"reconnect_storm")
    assert 1_000 < int(wait) < 3_000
    first.transport.write_eof.assert_called_once_with()
    first.transport.abort.assert_not_called()
    assert first.taken == []
