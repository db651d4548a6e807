"""Whatever bytes a client sends, every byte that it is sent is a legal frame.

The judge is the parser of the `websockets` library.
"""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.frames import Close, Frame
from websockets.frames import Opcode as Kind
from websockets.protocol import Protocol, Side
from websockets.streams import StreamReader

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import connected
from tests.unit.settle import settle

_MESSAGE = (
    b'{"type":"chat.message","message_id":"m1","previous_message_id":null,"payload":{"text":"hi"}}'
)


def _judged(sent: bytes) -> list[Frame]:
    """The server's frames.

    Raises:
        ProtocolError: one of them is illegal, or they are out of order.
    """
    judge = Protocol(Side.CLIENT)
    judge.receive_data(sent)
    if judge.parser_exc is not None:
        raise judge.parser_exc
    # The judge reads nothing behind a close frame. There must not be anything.
    reader = StreamReader()
    reader.feed_data(sent)
    frames = []
    while reader.buffer:
        parsing = Frame.parse(reader.read_exact, mask=False)
        with pytest.raises(StopIteration) as parsed:
            next(parsing)
        frames.append(parsed.value.value)
    closes = [frame for frame in frames if frame.opcode is Kind.CLOSE]
    assert closes in ([], frames[-1:]), "a close frame is the last, and the only one"
    for close in closes:
        Close.parse(close.data)
    return frames


def _frame(opcode: int, payload: bytes, first: int = 0x80, *, masked: bool = True) -> bytes:
    """A client's frame. `first`: its bits beside the opcode."""
    mask, size = (0x80, bytes(4)) if masked else (0, b"")
    if len(payload) < 126:
        length = bytes([mask | len(payload)])
    else:
        length = bytes([mask | 126]) + struct.pack(">H", len(payload))
    return bytes([first | opcode]) + length + size + payload


_CODES = st.integers(0, 65_535) | st.sampled_from([0, 999, 1005, 1006, 1015, 5000, 65_535])
_CLOSES = st.builds(
    lambda code, reason: code.to_bytes(2, "big") + reason, _CODES, st.binary(max_size=124)
)
_TEXTS = st.sampled_from([_MESSAGE, b'{"type":"ping"}', b"?", b"", b"\xff"])
_FRAMES = st.builds(
    _frame,
    st.integers(0, 15) | st.sampled_from(list(Opcode)),
    st.binary(max_size=130) | _CLOSES | _TEXTS,
    st.sampled_from([0x80, 0x80, 0x80, 0x00]) | st.integers(0, 15).map(lambda bits: bits << 4),
    masked=st.sampled_from([True] * 9 + [False]),
)
# What is in one tuple is read at once.
_READS = st.lists(st.lists(_FRAMES | st.binary(max_size=20), max_size=4).map(b"".join), max_size=8)
_BAD = b"\xff" * 6


async def _all_that_is_sent(reads: list[bytes], path: str) -> bytes:
    gateway = Gateway(Limits(frames_per_second=10))
    sock = connected(gateway, path)
    for data in reads:
        sock.receive(data)
        await settle()  # messages are accepted, and an answer begins
        for call in gateway.source.calls:
            if not call.end.done():
                call.push("token")
        gateway.clock.turn(1.0)
    gateway.clock.turn(31.0)  # a heartbeat
    gateway.registry.close_all(1001, "ü" * 200)
    sock.receive(_BAD)
    sock.lose()
    await settle()
    return bytes(sock.sent)


@example([_frame(8, b"") + _frame(9, b"x") + _BAD], "/ws")
@example([_frame(8, b"\x00\x00")], "/ws")
@example([_frame(8, b"\x03\xee")], "/realtime")
@example([_frame(8, b"\xff\xff")], "/ws")
@example([_frame(9, b"x") + _BAD, _BAD, _frame(8, b"")], "/ws")
@example([_frame(2, b"") + _frame(9, b"") + _BAD], "/ws")
@example([_frame(9, b"") * 50 + _BAD], "/ws")
@given(_READS, st.sampled_from(["/ws", "/realtime", "/v1/realtime?model=gpt-realtime"]))
@settings(deadline=None)
def test_no_bytes_of_a_client_make_the_server_send_an_illegal_frame(
    reads: list[bytes], path: str
) -> None:
    _judged(asyncio.run(_all_that_is_sent(reads, path)))


def test_the_judge_finds_what_is_illegal() -> None:
    legal = b"\x81\x01x"
    assert len(_judged(legal + b"\x88\x02\x03\xe8")) == 2
    for illegal in (
        b"\x88\x02\x00\x00",  # no code that may be sent
        b"\x88\x02\xff\xff",
        b"\x88\x02\x03\xee",
        b"\x88\x01\x03",
        b"\x88\x00\x88\x00",  # twice
        b"\x88\x00" + legal,  # something behind it
        b"\x91\x01x",  # a reserved bit
        b"\x81\x81\x00\x00\x00\x00x",  # masked
        b"\x83\x00",  # no opcode
        b"\x89\x7e\x00\x7e" + b"x" * 126,  # a large ping
        b"\x80\x01x",  # the end of nothing
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011 - the judge's, or an assertion here
            _judged(illegal)
