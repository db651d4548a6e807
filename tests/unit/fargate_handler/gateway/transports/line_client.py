"""A client of the transport with a JSON object a line."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Self, cast

from tests.unit.fargate_handler.gateway.transports.contract import (
    RECEIVE_BUFFER_BYTES,
    ClosedError,
    Frame,
    RefusedError,
)


class LineClient:
    """Fills `TransportClient`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._first: Frame | None = None

    @classmethod
    async def connect(cls, port: int, token: str, *, replaces: bool = False) -> Self:
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        wire.setblocking(False)
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", port))
        client = cls(*await asyncio.open_connection(sock=wire, limit=1_000_000))
        await client.send(json.dumps({"token": token, "replaces": replaces}).encode())
        first = await client.receive()
        if "type" not in first:
            client.vanish()
            raise RefusedError(first["error"]["code"])
        client._first = first
        return client

    async def send(self, data: bytes) -> None:
        self._writer.write(data + b"\n")
        await self._writer.drain()

    async def receive(self) -> Frame:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while (line := await self._reader.readline()) == b"\n":
            self._writer.write(b"\n")
        frame: Frame = json.loads(line) if line else {"type": "close", "code": None, "reason": ""}
        if frame.get("type") == "close":
            self._writer.close()
            raise ClosedError(frame["code"], frame["reason"])
        return frame

    def stop_reading(self) -> None:
        self._socket.pause_reading()

    def go_on_reading(self) -> None:
        self._socket.resume_reading()

    async def close(self) -> None:
        self._writer.write_eof()
        await self._reader.read()
        self._writer.close()

    def vanish(self) -> None:
        self._socket.abort()

    @property
    def _socket(self) -> asyncio.Transport:
        return cast("asyncio.Transport", self._writer.transport)
