"""A TCP proxy that resets connections when it is told to, as a network does that loses its state."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from typing import Self

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Passes on to `target_port` of 127.0.0.1; `with` starts and ends it."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._ends: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.port = 0

    def cut(self) -> int:
        """Reset every connection that is open; returns how many were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(5)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(5)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _cut(self) -> int:
        ends = tuple(self._ends)
        for end in ends:
            end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            end.transport.abort()
        return len(ends) // 2

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        to_target = await asyncio.open_connection("127.0.0.1", self._target_port)
        ends = {writer, to_target[1]}
        self._ends |= ends
        await asyncio.gather(_pass(reader, to_target[1]), _pass(to_target[0], writer), return_exceptions=True)
        self._ends -= ends
        for end in ends:
            end.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
