"""A client's socket without a network, with picows on it: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, cast

from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.base.channel import Channel
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway


class SocketInMemory(asyncio.Transport):
    """asyncio's transport, without a network: what was written, in order.

    Args:
        peer: the address of the other end. None: the connection was reset.
    """

    def __init__(self, peer: tuple[str, int] | None = ("192.0.2.9", 50_000)) -> None:
        self.known: dict[str, Any] = {"socket": socket.socket(), "peername": peer}
        super().__init__(self.known)
        self.sent = bytearray()
        self.protocol: Any = None
        self.closing = self.aborted = False
        self.reads = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: object) -> None:
        self.sent += cast("bytes", data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.sent += b"".join(list_of_data)

    def get_write_buffer_size(self) -> int:
        return 1  # so that picows writes here, and not to the socket

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = self.closing = True

    def receive(self, data: bytes) -> bytes:
        """The client has sent this. Returns what is not read: the loop doesn't, or the end came."""
        while data and self.reads and not self.closing:
            window = self.protocol.get_buffer(-1)[: len(data)]
            window[:] = data[: len(window)]
            data = data[len(window) :]
            self.protocol.buffer_updated(len(window))
        return data

    def lose(self) -> None:
        """The socket is gone."""
        self.protocol.connection_lost(None)
        self.get_extra_info("socket").close()


def connected(gateway: Gateway, path: str = "/ws", channel: Channel = CHANNEL) -> SocketInMemory:
    """A WebSocket after its handshake."""
    token, _ = gateway.context.access.tokens.issue(channel, gateway.clock.now, 3600)
    head = (
        f"GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Authorization: Bearer {token}\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    sock = SocketInMemory()
    assert WebSocketEndpoint(gateway.context).take(sock, head.encode()) is None
    answer, _, frames = bytes(sock.sent).partition(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101")
    sock.sent[:] = frames
    return sock
