"""A client of the WebSocket: the library `websockets`."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from evenflow.stream_core.protocols.evenflow.dialect import V1
from tests.unit.fargate_handler.gateway.transports.contract import (
    RECEIVE_BUFFER_BYTES,
    ClosedError,
    Frame,
    RefusedError,
)


class WebSocketClient:
    """Fills `TransportClient`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, port: int, token: str, *, replaces: bool = False) -> Self:
        names = [Subprotocol(V1), Subprotocol(f"bearer.{token}")]
        query = "?replace=1" if replaces else ""
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        wire.setblocking(False)
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", port))
        try:
            connection = await connect(
                f"ws://127.0.0.1:{port}/ws{query}",
                sock=wire,
                subprotocols=names,
                proxy=None,
                ping_interval=None,
            )
        except InvalidStatus as refused:
            raise RefusedError(json.loads(refused.response.body or b"")["error"]["code"]) from None
        return cls(connection)

    async def send(self, data: bytes) -> None:
        await self._connection.send(data, text=True)

    async def receive(self) -> Frame:
        try:
            frame: Frame = json.loads(await self._connection.recv())
        except ConnectionClosed as closed:
            raise ClosedError(
                *((closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (None,))
            ) from None
        return frame

    def stop_reading(self) -> None:
        self._connection.transport.pause_reading()

    def go_on_reading(self) -> None:
        self._connection.transport.resume_reading()

    async def close(self) -> None:
        await self._connection.close()

    def vanish(self) -> None:
        self._connection.transport.abort()
