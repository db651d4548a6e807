"""A proxy between clients and a server that keeps every byte of the server's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

_READ = 65_536


class RecordingProxy:
    """Forwards connections to a port of this machine.

    Args:
        record: takes what the server sends, connection by connection.
    """

    def __init__(self, port: int, record: BinaryIO) -> None:
        self._port = port
        self._record = record
        self._open: list[list[bytes]] = []
        self.bytes = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        said, server = await asyncio.open_connection("127.0.0.1", self._port)
        told: list[bytes] = []
        self._open.append(told)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_forward(reader, server, []))
                both.create_task(_forward(said, writer, told))
        finally:
            if any(told is each for each in self._open):
                self._open = [each for each in self._open if each is not told]
                self._write(told)

    def end(self) -> None:
        """Write what connections have that are still open."""
        for told in self._open:
            self._write(told)
        self._open = []

    def _write(self, told: list[bytes]) -> None:
        whole = b"".join(told) + b"\n"
        self.bytes += len(whole)
        self._record.write(whole)


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: list[bytes]
) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_READ):
            record.append(data)
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def recording_proxy(port: int, record: BinaryIO) -> AsyncIterator[RecordingProxy]:
    """Serve one on a free port."""
    proxy = RecordingProxy(port, record)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, backlog=1024)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.end()
