"""How much of one turn of the event loop requests and handshakes of one address may have."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

_A_TURN = 1
"""A request takes some 2 ms until it waits for the store. With eight a turn took 15 to 30 ms while
one address asked 100 times a second, and all that others waited for came so much later.
"""

_Lines = OrderedDict[str, deque[Callable[[], None]]]


class AddressTurns:
    """Lets one request of an address go on in each turn of the event loop.

    Where one address sends many at once, requests of others come between them, and of the same
    address those with other credentials: behind a proxy all have one address. Where nobody else
    asks, the next turn follows at once.
    """

    def __init__(self) -> None:
        self._gone_on: dict[str, int] = {}
        self._waiting: dict[str, _Lines] = {}

    async def wait(self, address: str, credentials: str = "") -> None:
        """Return in a turn in which a request of this address may go on.

        Args:
            credentials: as they were sent. Nobody has checked them yet.
        """
        if self._goes_on_now(address):
            return
        turn = asyncio.Event()
        self._wait(address, credentials, turn.set)
        await turn.wait()

    def call(self, address: str, go_on: Callable[[], None]) -> None:
        """Call `go_on`, which must not raise: now, or in a turn in which this address may go on."""
        if self._goes_on_now(address):
            go_on()
        else:
            self._wait(address, "", go_on)

    def _wait(self, address: str, credentials: str, go_on: Callable[[], None]) -> None:
        self._waiting.setdefault(address, OrderedDict()).setdefault(credentials, deque()).append(
            go_on
        )

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
        for address, lines in tuple(self._waiting.items()):
            while lines and self._gone_on.get(address, 0) < _A_TURN:
                self._count(address)
                _next_of(lines)()
            if not lines:
                del self._waiting[address]


def _next_of(lines: _Lines) -> Callable[[], None]:
    """Remove and return the first of a line, which is the last one then."""
    credentials, line = lines.popitem(last=False)
    go_on = line.popleft()
    if line:
        lines[credentials] = line
    return go_on
