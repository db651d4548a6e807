"""New connections at a steady rate, by a client that is lighter than the server.

Each is a socket, the head of a handshake, and a look at what comes back. A whole WebSocket client
takes some 0.4 ms to connect. Beside 10,000 streams its core would be full, and its own delay would
be measured.
"""

import asyncio
import socket
from collections.abc import Sequence
from itertools import cycle
from time import monotonic
from urllib.parse import urlsplit

from bench.client import HANDSHAKE_TIMEOUT_SECONDS, sleep_until, until

_READY = b'"session.ready"'
# Each has ports of its own. The more ports of one address are taken, the longer the kernel looks
# for a free one: 0.7 ms with 18,000 connections.
_SOURCES = [f"127.1.{number}.1" for number in range(32)]
# Finds the port when the connection is made, among those that are free for this server.
_BIND_ADDRESS_NO_PORT = 24


class Arrival:
    """One connection. Times are `time.monotonic` seconds, None for what did not happen."""

    def __init__(self, due: float, source: str, address: tuple[str, int], head: bytes) -> None:
        self.due = due  # when the schedule wanted it to begin
        self.ready_at: float | None = None
        self._source = source
        self._address = address
        self._head = head
        self._received = b""
        self._socket = socket.socket()
        self._loop = asyncio.get_running_loop()

    @property
    def waited(self) -> float:
        """Seconds from the scheduled start to `session.ready`, or the most that a client waits."""
        if self.ready_at is None:
            return HANDSHAKE_TIMEOUT_SECONDS
        return min(self.ready_at - self.due, HANDSHAKE_TIMEOUT_SECONDS)

    def begin(self) -> None:
        """Connect. The handshake is sent as soon as the connection stands."""
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        self._socket.bind((self._source, 0))
        self._socket.connect_ex(self._address)
        self._loop.add_writer(self._socket, self._connected)

    def close(self) -> None:
        """Leave."""
        self._loop.remove_writer(self._socket)
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _connected(self) -> None:
        self._loop.remove_writer(self._socket)
        try:
            self._socket.send(self._head)
        except OSError:
            return  # refused: it is never ready
        self._loop.add_reader(self._socket, self._read)

    def _read(self) -> None:
        try:
            received = self._socket.recv(65_536)
        except OSError:
            received = b""
        self._received += received
        if _READY in self._received:
            self.ready_at = monotonic()
        if self.ready_at is not None or not received:
            self._loop.remove_reader(self._socket)


async def arrive(url: str, tokens: Sequence[str], rate: float) -> list[Arrival]:
    """Begin `rate` connections a second, on a schedule fixed in advance. The caller closes them.

    Returns when each is ready, or nobody would wait for it any longer.
    """
    parts = urlsplit(url)
    address = (str(parts.hostname), parts.port or 80)
    begin = monotonic() + 0.05
    arrivals = [
        Arrival(begin + number / rate, source, address, _head(parts.netloc, parts.path, token))
        for number, (token, source) in enumerate(zip(tokens, cycle(_SOURCES), strict=False))
    ]
    for arrival in arrivals:
        await sleep_until(arrival.due)
        arrival.begin()
    await until(
        lambda: all(arrival.ready_at is not None for arrival in arrivals), HANDSHAKE_TIMEOUT_SECONDS
    )
    return arrivals


def _head(host: str, path: str, token: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: evenflow.v1\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()
