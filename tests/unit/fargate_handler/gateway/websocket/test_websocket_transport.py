"""The WebSocket as a transport: what picows is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from picows import WSFrame, WSMsgType, WSTransport

from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.websocket.websocket_transport import WebSocketTransport
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode


@dataclass
class Request:
    """The upgrade request, of which only the headers matter."""

    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": "Bearer secret"})


@dataclass
class Socket:
    """asyncio's transport below picows'."""

    high: int | None = None
    reads: bool = True

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def pause_reading(self) -> None:
        self.reads = False


@dataclass
class Picows:
    """Stands for `picows.WSTransport`: what it was told."""

    request: Request = field(default_factory=Request)
    underlying_transport: Socket = field(default_factory=Socket)
    told: list[tuple[Any, ...]] = field(default_factory=list)
    is_close_frame_sent: bool = False

    def send(self, kind: WSMsgType, data: bytes) -> None:
        self.told.append(("send", kind, data))

    def send_reuse_external_bytearray(self, kind: WSMsgType, data: bytearray, offset: int) -> None:
        self.told.append(("send_reuse", kind, bytes(data[offset:]), offset))

    def send_ping(self) -> None:
        self.told.append(("ping",))

    def send_pong(self, payload: bytes) -> None:
        self.told.append(("pong", payload))

    def send_close(self, code: int, reason: str) -> None:
        self.told.append(("close", code, reason))

    def disconnect(self, graceful: bool) -> None:
        self.told.append(("disconnect", graceful))


@dataclass
class Client:
    """Stands for a `ClientConnection`: what it was told."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def connected(self, transport: object) -> None:
        self.told.append(("connected", transport))

    def receive(self, opcode: int, payload: bytes, *, final: bool, reserved: bool) -> None:
        self.told.append(("receive", Opcode(opcode), payload, final, reserved))

    def block(self) -> None:
        self.told.append(("block",))

    def unblock(self) -> None:
        self.told.append(("unblock",))

    def disconnected(self) -> None:
        self.told.append(("disconnected",))


@dataclass
class Frame:
    """A frame of the client."""

    msg_type: WSMsgType
    payload: bytes = b""
    fin: bool = True
    rsv1: bool = False
    rsv2: bool = False
    rsv3: bool = False
    tail_size: int = 0

    def get_payload_as_bytes(self) -> bytes:
        return self.payload


class Wire:
    """A WebSocket between the two."""

    def __init__(self) -> None:
        self.client, self.picows = Client(), Picows()
        self.websocket = WebSocketTransport(cast("ClientConnection", self.client))
        self.websocket.on_ws_connected(cast("WSTransport", self.picows))
        self.client.told.clear()

    def receive(self, frame: Frame) -> list[tuple[Any, ...]]:
        self.websocket.on_ws_frame(cast("WSTransport", self.picows), cast("WSFrame", frame))
        return self.client.told


def test_the_token_is_forgotten_and_the_kernels_buffer_is_the_only_one() -> None:
    wire = Wire()
    assert wire.picows.request.headers == {}
    assert wire.picows.underlying_transport.high == 0


@pytest.mark.parametrize(
    ("kind", "opcode"),
    [
        (WSMsgType.TEXT, Opcode.TEXT),
        (WSMsgType.CONTINUATION, Opcode.CONTINUATION),
        (WSMsgType.BINARY, Opcode.BINARY),
        (WSMsgType.PING, Opcode.PING),
        (WSMsgType.PONG, Opcode.PONG),
        (WSMsgType.CLOSE, Opcode.CLOSE),
    ],
)
def test_each_frame_is_given_on_as_what_it_is(kind: WSMsgType, opcode: Opcode) -> None:
    assert Wire().receive(Frame(kind, b"abc")) == [("receive", opcode, b"abc", True, False)]
    assert Wire().receive(Frame(kind, b"abc", fin=False)) == [
        ("receive", opcode, b"abc", False, False)
    ]


@pytest.mark.parametrize("bit", ["rsv1", "rsv2", "rsv3"])
def test_a_reserved_bit_is_told(bit: str) -> None:
    frame = Frame(WSMsgType.TEXT, b"{}", **{bit: True})
    assert Wire().receive(frame) == [("receive", Opcode.TEXT, b"{}", True, True)]


def test_a_close_frame_with_something_behind_it_breaks_the_protocol() -> None:
    frame = Frame(WSMsgType.CLOSE, b"", tail_size=6)
    assert Wire().receive(frame) == [("receive", Opcode.CLOSE, b"\x03\xea", True, False)]


def test_what_was_read_with_one_frame_too_many_is_not_given_on() -> None:
    wire = Wire()
    wire.websocket.stop_reading()
    assert wire.receive(Frame(WSMsgType.PING)) == []
    assert not wire.picows.underlying_transport.reads


@pytest.mark.parametrize(
    ("reason", "sent"), [("ü" * 100, "ü" * 60), ("a" + "ü" * 99, "a" + "ü" * 59)]
)
def test_a_reason_is_cut_between_characters_to_what_a_close_frame_holds(
    reason: str, sent: str
) -> None:
    wire = Wire()
    wire.websocket.send_close(1001, reason)
    assert wire.picows.told == [("close", 1001, sent)]


def test_what_the_socket_says_is_given_on() -> None:
    wire = Wire()
    wire.websocket.pause_writing()
    wire.websocket.resume_writing()
    wire.websocket.on_ws_disconnected(cast("WSTransport", wire.picows))
    assert wire.client.told == [("block",), ("unblock",), ("disconnected",)]


@pytest.mark.parametrize("size", [0, 8_192, 8_193, 1_000_000])
def test_a_frame_that_picows_would_not_copy_is_sent_from_a_buffer_of_its_own(size: int) -> None:
    wire, text = Wire(), b"x" * size
    wire.websocket.send_text(text)
    expected = (
        ("send", WSMsgType.TEXT, text)
        if size <= 8_192
        else ("send_reuse", WSMsgType.TEXT, text, 14)
    )
    assert wire.picows.told == [expected]


def test_control_frames_and_the_end() -> None:
    wire = Wire()
    wire.websocket.send_ping()
    wire.websocket.send_pong(b"abc")
    wire.websocket.send_close(1001, "r" * 200)
    wire.websocket.send_close(None, "")
    wire.websocket.disconnect(flush=False)
    wire.websocket.disconnect(flush=True)
    assert wire.picows.told == [
        ("ping",),
        ("pong", b"abc"),
        ("close", 1001, "r" * 120),
        ("send", WSMsgType.CLOSE, b""),
        ("disconnect", False),
        ("disconnect", True),
    ]


def test_where_picows_has_said_why_nothing_more_is_said() -> None:
    wire = Wire()
    wire.picows.is_close_frame_sent = True
    wire.websocket.send_close(1001, "leaving")
    assert wire.picows.told == []
