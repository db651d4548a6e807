"""How much of one turn of the event loop requests and handshakes of one address may have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_A_TURN = 8
"""A request takes some 0.3 ms, so a turn with those of one address some 3 ms."""


class AddressTurns:
    """Lets a few requests of an address go on in each turn of the event loop.

    Where one address sends many at once, requests of others come between them. Where nobody else
    asks, the next turn follows at once.
    """

    def __init__(self) -> None:
        self._gone_on: dict[str, int] = {}
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    async def wait(self, address: str) -> None:
        """Return in a turn in which a request of this address may go on."""
        if self._goes_on_now(address):
            return
        turn = asyncio.Event()
        self._waiting.setdefault(address, deque()).append(turn.set)
        await turn.wait()

    def call(self, address: str, go_on: Callable[[], None]) -> None:
        """Call `go_on`, which must not raise: now, or in a turn in which this address may go on."""
        if self._goes_on_now(address):
            go_on()
        else:
            self._waiting.setdefault(address, deque()).append(go_on)

    def _goes_on_now(self, address: str) -> bool:
        """Count one more in this turn, unless others wait or there were enough."""
        if address in self._waiting or self._gone_on.get(address, 0) >= _A_TURN:
            return False
        self._count(address)
        return True

    def _count(self, address: str) -> None:
        if not self._gone_on:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._gone_on[address] = self._gone_on.get(address, 0) + 1

    def _next_turn(self) -> None:
        self._gone_on.clear()
        for address, waiting in tuple(self._waiting.items()):
            while waiting and self._gone_on.get(address, 0) < _A_TURN:
                self._count(address)
                waiting.popleft()()
            if not waiting:
                del self._waiting[address]
