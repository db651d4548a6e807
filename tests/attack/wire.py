"""Sockets as an attacker has them: any bytes at any time from an address of one's own, and no more
reading than one likes.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from tests.integration.raw_websocket import RawWebSocket

ATTACKER = "127.0.0.66"
STRANGER = "203.0.113.66"
_READ_AHEAD = 4_096
_ANSWER_SECONDS = 20.0
_BLOCK = 65_536
# linux/in.h: the port is chosen when it connects, so that thousands don't search for free ones.
_IP_BIND_ADDRESS_NO_PORT = 24


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """Its body; empty where that is no JSON object."""
        with suppress(ValueError):
            value = json.loads(self.body)
            if isinstance(value, dict):
                return value
        return {}

    @property
    def code(self) -> str:
        """That of its error, else its status."""
        error = self.json.get("error")
        return str(error.get("code")) if isinstance(error, dict) else str(self.status)


NO_REPLY = Reply(0, {}, b"")
"""The connection ended without an answer."""


class _CountedWriter(asyncio.StreamWriter):
    """Counts the bytes that are written, whatever writes them."""

    def __init__(
        self,
        client: Client,
        transport: asyncio.WriteTransport,
        protocol: asyncio.StreamReaderProtocol,
        reader: asyncio.StreamReader,
    ) -> None:
        super().__init__(transport, protocol, reader, asyncio.get_running_loop())
        self._client = client

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._client.sent_bytes += len(data)
        super().write(data)


class Connection:
    """One connection. What is sent is counted by its client."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forwarded: str
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._forwarded = forwarded

    def send(self, data: bytes) -> None:
        """Send bytes."""
        with suppress(ConnectionError):
            self.writer.write(data)

    async def flood(self, block: bytes, until: float) -> int:
        """Send a block again and again, as fast as it is taken; returns how often."""
        count = 0
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(max(0.0, until - monotonic())):
                while not self.writer.is_closing():
                    self.send(block)
                    count += 1
                    await self.writer.drain()
                    await asyncio.sleep(0)
        return count

    async def discard(self) -> int:
        """Read to the end; returns how many bytes came."""
        came = 0
        with suppress(ConnectionError):
            while part := await self.reader.read(_BLOCK):
                came += len(part)
        return came

    async def head(self) -> Reply:
        """The head of the next answer; NO_REPLY where the connection ends."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return NO_REPLY
        first, *lines = head.strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        return Reply(int(first.split(" ")[1]), headers, b"")

    async def reply(self) -> Reply:
        """The next answer, whole; NO_REPLY where the connection ends."""
        reply = await self.head()
        if not reply.status:
            return reply
        body = b""
        with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                if "content-length" in reply.headers:
                    body = await self.reader.readexactly(int(reply.headers["content-length"]))
                else:
                    body = b"".join([line async for line in self.body_lines(reply)])
        return Reply(reply.status, reply.headers, body)

    async def body_lines(self, head: Reply) -> AsyncIterator[bytes]:
        """The lines of a body that has no length, as they come."""
        rest = b""
        async for part in self._parts(head):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest:
            yield rest

    async def _parts(self, head: Reply) -> AsyncIterator[bytes]:
        if head.headers.get("transfer-encoding") != "chunked":
            while part := await self.reader.read(_BLOCK):
                yield part
            return
        while size := int((await self.reader.readline()).strip() or b"0", 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    async def upgraded(
        self, token: str, path: str = "/ws", protocol: str = "evenflow.v1", headers: str = ""
    ) -> RawWebSocket:
        """Ask for a WebSocket, and return it with the answer's status.

        Raises:
            OSError, asyncio.IncompleteReadError: the server takes none.
        """
        websocket = RawWebSocket(self.reader, self.writer)
        headers = f"{self._forwarded}{headers}"
        await websocket.handshake(token, path=path, protocol=protocol, headers=headers)
        return websocket

    def abort(self) -> None:
        """Reset it."""
        self.writer.transport.abort()


class Client:
    """Opens connections to one server from one address, and counts them and their bytes.

    Args:
        address: from which it connects, one of the loopback's.
        behind_proxy: whether a proxy of this machine says that its address is `STRANGER`. Otherwise
            the server takes it for a program of this machine.
    """

    def __init__(
        self, port: int, address: str = "127.0.0.1", *, behind_proxy: bool = False
    ) -> None:
        self.address = address
        self.sent_bytes = 0
        self.opened = 0
        self._port = port
        self._forwarded = {"X-Forwarded-For": STRANGER} if behind_proxy else {}
        self._connections: list[Connection] = []

    @property
    def host(self) -> str:
        """The `Host` of an honest request."""
        return f"127.0.0.1:{self._port}"

    async def connect(self, receive_buffer: int | None = None) -> Connection:
        """Open one; it lasts until `close` at most.

        Raises:
            OSError: it is refused.
        """
        sock = socket.socket()
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((self.address, 0))
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, ("127.0.0.1", self._port))
            reader = asyncio.StreamReader(_READ_AHEAD, loop)
            protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
            transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        except OSError:
            sock.close()
            raise
        writer = _CountedWriter(self, transport, protocol, reader)
        named = "".join(f"{name}: {value}\r\n" for name, value in self._forwarded.items())
        connection = Connection(reader, writer, named)
        self.opened += 1
        self._connections.append(connection)
        return connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """One for the block."""
        opened = await self.connect()
        try:
            yield opened
        finally:
            self._connections.remove(opened)
            opened.abort()

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The bytes of a request."""
        length = {"Content-Length": str(len(body))}
        all_headers = {"Host": self.host, **self._forwarded, **length, **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
        return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own; NO_REPLY where it gets no answer."""
        data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        json_type = {"Content-Type": "application/json"} if data else {}
        try:
            async with self.connection() as connection:
                connection.send(self.request(method, path, data, {**json_type, **(headers or {})}))
                return await connection.reply()
        except OSError:
            return NO_REPLY

    async def websocket(self, token: str, path: str = "/ws") -> RawWebSocket:
        """A WebSocket whose handshake was answered: its `status` says how.

        Raises:
            OSError, asyncio.IncompleteReadError: the server takes none.
        """
        return await (await self.connect()).upgraded(token, path)

    def close(self) -> None:
        """Reset what is open."""
        for connection in self._connections:
            connection.abort()
        self._connections.clear()


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}
