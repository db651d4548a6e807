"""How many messages are put on record at once, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evenflow.stream_core.fairness.fair_queue import FairQueue, Line

_MOST_WAITING = 2**31
"""No bound: who may wait is decided before."""


class TurnsAtTheStore:
    """So many messages at once. For the others tenants take turns, then addresses, then sessions.

    Args:
        at_once: how many.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue(_MOST_WAITING)

    @asynccontextmanager
    async def turn(self, line: Line) -> AsyncIterator[None]:
        """Wait for the turn of a message of this line, which is over at the end of the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(line)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, line: Line) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(line, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(line, turn)
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while (following := self._waiting.take()) is not None:
            if not following.done():  # one that was cancelled has still to leave
                following.set_result(None)
                return
        self._free += 1
