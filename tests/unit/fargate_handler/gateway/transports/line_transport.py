"""A client on a TCP connection with a JSON object a line: the smallest transport there is.

The client's first line says who it is. An empty line is a ping, and its answer. The server's last
line says why it closes, and the client answers by closing its side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import orjson

from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode


class LineTransport(asyncio.Protocol):
    """One connection: the transport of its client.

    Args:
        admit: lets the client in by its first line, or raises why not.
        most: bytes of a line; more are given on as they are, and the session refuses them.
    """

    name = "line"

    def __init__(self, admit: Callable[[bytes], ClientConnection], most: int) -> None:
        self._admit = admit
        self._most = most
        self._client: ClientConnection | None = None
        self._received = bytearray()
        self._socket: asyncio.Transport

    # -- what the event loop calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._socket = cast("asyncio.Transport", transport)
        self._socket.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Some bytes came."""
        self._received += data
        *lines, rest = bytes(self._received).split(b"\n")
        if len(rest) > self._most:
            lines, rest = [*lines, rest], b""
        self._received[:] = rest
        for line in lines:
            self._take(line)

    def eof_received(self) -> bool:
        """The client has closed its side: the close frame of this transport."""
        if self._client is not None:
            self._client.receive(Opcode.CLOSE, b"")
        return self._client is not None

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        if self._client is not None:
            self._client.disconnected()

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        if self._client is not None:
            self._client.block()

    def resume_writing(self) -> None:
        """There is room again."""
        if self._client is not None:
            self._client.unblock()

    def _take(self, line: bytes) -> None:
        if self._client is not None:
            self._client.receive(Opcode.TEXT if line else Opcode.PONG, line)
            return
        try:
            self._client = self._admit(line)
        except EvenflowError as error:
            self._socket.write(orjson.dumps(error.to_body()) + b"\n")
            self._socket.close()
            return
        self._client.connected(self)

    # -- what the client's session says ------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken."""
        return self._socket.get_write_buffer_size()

    def send_text(self, data: bytes) -> None:
        """Send a line."""
        self._socket.write(data + b"\n")

    def send_ping(self) -> None:
        """Send an empty line."""
        self._socket.write(b"\n")

    def send_pong(self, payload: bytes) -> None:
        """Clients of this transport send no pings."""

    def send_close(self, code: int | None, reason: str) -> None:
        """Send the last line."""
        self._socket.write(orjson.dumps({"type": "close", "code": code, "reason": reason}) + b"\n")

    def stop_reading(self) -> None:
        """Read no more lines."""
        self._socket.pause_reading()

    def disconnect(self, *, flush: bool) -> None:
        """Close the socket."""
        if flush:
            self._socket.close()
        else:
            self._socket.abort()
