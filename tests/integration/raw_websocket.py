"""A WebSocket client without a library's manners: any bytes at any time, and reading only when
told.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
from contextlib import suppress
from typing import NamedTuple, Self

from tests.integration.answer import Frame
from tests.integration.chat_client import V1

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_READ_SECONDS = 40.0


class RawFrame(NamedTuple):
    """A frame of the server."""

    opcode: int
    final: bool
    payload: bytes

    @property
    def json(self) -> Frame:
        """A text frame's object."""
        value: Frame = json.loads(self.payload)
        return value

    @property
    def close_code(self) -> int:
        """A close frame's code."""
        return int.from_bytes(self.payload[:2], "big") if self.payload else 1005


def client_frame(
    opcode: int, payload: bytes = b"", *, final: bool = True, masked: bool = True, reserved: int = 0
) -> bytes:
    """The bytes of one frame."""
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([mask_bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([mask_bit | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([mask_bit | 127]) + struct.pack(">Q", len(payload))
    if not masked:
        return head + payload
    mask = os.urandom(4)
    repeated = mask * (len(payload) // 4 + 1)
    hidden = int.from_bytes(payload, "big") ^ int.from_bytes(repeated[: len(payload)], "big")
    return head + mask + hidden.to_bytes(len(payload), "big")


def text_frame(message: object) -> bytes:
    """An object as one masked text frame."""
    return client_frame(TEXT, json.dumps(message).encode())


class RawWebSocket:
    """An open connection whose bytes are the test's.

    Args:
        reader, writer: the socket's streams; nothing is read ahead of what is asked for but a few
            kilobytes.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> Self:
        """Connect, without a handshake yet."""
        sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        return cls(reader, writer)

    async def handshake(
        self, token: str, *, protocol: str = V1, path: str = "/ws", headers: str = ""
    ) -> int:
        """Ask for the upgrade; returns the answer's status."""
        key = base64.b64encode(os.urandom(16)).decode()
        self.write(
            (
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: "
                f"Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                f"Sec-WebSocket-Protocol: {protocol}, bearer.{token}\r\n{headers}\r\n"
            ).encode()
        )
        await self.read_head()
        return self.status

    async def read_head(self) -> None:
        """Read the answer's status and headers."""
        async with asyncio.timeout(_READ_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }

    async def read_body(self) -> bytes:
        """Read a refusal's body."""
        async with asyncio.timeout(_READ_SECONDS):
            if "content-length" in self.headers:
                return await self._reader.readexactly(int(self.headers["content-length"]))
            return await self._reader.read(-1)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    def end(self) -> None:
        """End this side of the connection, and go on taking nothing."""
        self._writer.write_eof()

    async def drain(self) -> None:
        """Wait until the socket took most of what was written."""
        await self._writer.drain()

    async def frame(self, seconds: float = _READ_SECONDS) -> RawFrame:
        """The next frame."""
        async with asyncio.timeout(seconds):
            first, second = await self._reader.readexactly(2)
            assert not second & 0x80, "the server masked a frame"
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self._reader.readexactly(8))
            return RawFrame(
                first & 0x0F, bool(first & 0x80), await self._reader.readexactly(length)
            )

    async def next_of(self, *kinds: str) -> Frame:
        """The next text frame of one of these types."""
        while True:
            frame = await self.frame()
            if frame.opcode == TEXT and frame.json["type"] in kinds:
                return frame.json
            assert frame.opcode != CLOSE, f"closed with {frame.close_code} instead of {kinds}"

    async def close_code(self, seconds: float = _READ_SECONDS) -> int:
        """Read on to the server's close frame; 1006 when the socket ends without one."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    frame = await self.frame(seconds)
                except (asyncio.IncompleteReadError, ConnectionError):
                    return 1006
                if frame.opcode == CLOSE:
                    return frame.close_code

    async def ended(self, seconds: float = _READ_SECONDS) -> bytes:
        """Read on until the server has closed the socket. Returns what came."""
        came = b""
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while part := await self._reader.read(65536):
                    came += part
        return came

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._writer.transport.abort()
        await asyncio.sleep(0)
