"""Shares each turn of the event loop among the addresses that send requests and handshakes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from time import perf_counter

_TURN_SECONDS = 0.002
"""A request's time until it waits for the store, roughly. With eight requests in one, a turn took
15 to 30 ms while one address sent 100 a second, and delayed all other work by that time.
"""
_HANDSHAKE_SECONDS = 0.000_25
"""The least time that a handshake counts as: its first frames follow in later turns. Behind a proxy
all handshakes have one address. With one a turn they took minutes on a busy core, where a turn is
20 to 40 ms.
"""

_Lines = OrderedDict[str, deque[Callable[[], float]]]


class AddressTurns:
    """Starts one request of an address, or some handshakes, in each turn of the event loop.

    Where one address sends many at once, requests of others come between them, and of the same
    address those with other credentials: behind a proxy all have one address. Where no other
    address has a request, the next turn follows at once.
    """

    def __init__(self) -> None:
        self._used_seconds: dict[str, float] = {}
        self._waiting: dict[str, _Lines] = {}

    async def wait(self, address: str, credentials: str = "") -> None:
        """Wait for a turn in which a request of this address may start.

        Args:
            credentials: as they were sent, not checked yet.
        """
        turn = asyncio.Event()

        def start() -> float:
            turn.set()
            return _TURN_SECONDS

        self._start_or_queue(address, credentials, start)
        await turn.wait()

    def call(self, address: str, handshake: Callable[[], None]) -> None:
        """Call `handshake`, which must not raise: now, or in a turn in which this address may
        start one.
        """

        def start() -> float:
            started = perf_counter()
            handshake()
            return max(_HANDSHAKE_SECONDS, perf_counter() - started)

        self._start_or_queue(address, "", start)

    def _start_or_queue(self, address: str, credentials: str, start: Callable[[], float]) -> None:
        """Call `start` now, unless others wait or the address has used its part of this turn."""
        if address not in self._waiting and self._has_time(address):
            self._call(address, start)
        else:
            lines = self._waiting.setdefault(address, OrderedDict())
            lines.setdefault(credentials, deque()).append(start)

    def _has_time(self, address: str) -> bool:
        return self._used_seconds.get(address, 0.0) < _TURN_SECONDS

    def _call(self, address: str, start: Callable[[], float]) -> None:
        if not self._used_seconds:
            asyncio.get_running_loop().call_soon(self._next_turn)
        used_seconds = self._used_seconds.setdefault(address, 0.0)
        self._used_seconds[address] = used_seconds + start()

    def _next_turn(self) -> None:
        self._used_seconds.clear()
        for address, lines in tuple(self._waiting.items()):
            while lines and self._has_time(address):
                self._call(address, _next_of(lines))
            if not lines:
                del self._waiting[address]


def _next_of(lines: _Lines) -> Callable[[], float]:
    """Remove and return the first of a line, which is the last one then."""
    credentials, line = lines.popitem(last=False)
    start = line.popleft()
    if line:
        lines[credentials] = line
    return start
