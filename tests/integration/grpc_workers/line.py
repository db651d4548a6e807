"""A TCP line to a worker: cut, it looks as a lost machine does, and silent as a paused one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from evenflow.fargate_handler.inference import channel_options

PING_SECONDS = 0.2
_TIMES_OF_PINGS = (
    "grpc.keepalive_time_ms",
    "grpc.keepalive_timeout_ms",
    "grpc.http2.ping_timeout_ms",
)


@contextmanager
def short_pings() -> Iterator[None]:
    """Within, who connects or listens pings a silent peer after 0.2 s, and waits 0.2 s more."""
    shortened = [
        (name, round(PING_SECONDS * 1000) if name in _TIMES_OF_PINGS else value)
        for name, value in channel_options._COMMON
    ]
    with patch.object(channel_options, "_COMMON", shortened):
        yield


class Line:
    """Listens on a port of its own and carries what comes to a worker, and back.

    Args:
        to: the worker's address.
    """

    def __init__(self, to: str) -> None:
        self._host, _, self._port = to.partition(":")
        self._carries = asyncio.Event()
        self._carries.set()
        self._ends: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections, and take no new ones."""
        self._server.close()
        self._carries.set()
        for end in self._ends:
            end.transport.abort()

    def fall_silent(self) -> None:
        """Carry nothing; connections are taken, and stay, whatever either side does."""
        self._carries.clear()

    def carry_on(self) -> None:
        """Carry all that was left lying, and what comes."""
        self._carries.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker_reader, worker_writer = await asyncio.open_connection(self._host, self._port)
        ends = {writer, worker_writer}
        self._ends |= ends
        await asyncio.gather(self._carry(reader, worker_writer), self._carry(worker_reader, writer))
        self._ends -= ends

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                data = await reader.read(65_536)
                await self._carries.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
