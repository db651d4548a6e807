"""A semaphore whose waiters are served fairly, by tenants, addresses and sessions.

It bounds accesses to the store and the parsing of large bodies. It does not bound calls of models:
see `generations.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evenflow.stream_core.queue.fair_queue import FairQueue, Line

_MAX_WAITING = 2**31
"""No limit: callers bound what waits."""


class FairSemaphore:
    """Bounds concurrent work. Tenants wait in turns, then addresses, then sessions.

    Args:
        limit: the most that hold it at once.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue(_MAX_WAITING)

    @asynccontextmanager
    async def turn(self, line: Line) -> AsyncIterator[None]:
        """Hold the semaphore for work of this line, for the time of the block."""
        await self.acquire(line)
        try:
            yield
        finally:
            self.release()

    async def acquire(self, line: Line) -> None:
        """Acquire the semaphore for work of this line. `release` follows."""
        if not self.acquire_free():
            await self._wait(line)

    def acquire_free(self) -> bool:
        """Acquire the semaphore if it is free. Returns whether it was. `release` follows then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Release the semaphore. The next waiter acquires it."""
        while (waiter := self._waiting.take()) is not None:
            if not waiter.done():  # a cancelled waiter is still to be removed
                waiter.set_result(None)
                return
        self._free += 1

    async def _wait(self, line: Line) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(line, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(line, turn)
            else:
                self.release()
            raise
