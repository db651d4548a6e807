"""Shares each turn of the event loop among the addresses that send requests and handshakes."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from time import perf_counter

from evenflow.stream_core.base.errors import Overloaded

_SHARE = 1 / 4
"""Of the last turn's time, for handshakes, and the same for requests. A turn is long if there is
much to deliver, or if other programs have the core. With a fixed time a turn, a busy core started
a few a second.
"""
_MOST_SECONDS = 0.010
"""The most of one turn for either. Each has it whole while nothing else is to do: with less, 2,000
handshakes a second waited on a core that was half idle.
"""
_TURN_SECONDS = 0.002
"""The least of one turn for an address, and for all handshakes."""
_REQUESTS_SECONDS = 0.004
"""The least of one turn for all requests."""
_CALL_SECONDS = 0.001
"""A message's time until it waits for the store, roughly."""
_READ_SECONDS = 0.000_25
"""The same of a request that reads."""
_HANDSHAKE_SECONDS = 0.000_25
"""The least time that a handshake counts as: its first frames follow in later turns. Behind a proxy
all handshakes have one address. With one a turn they took minutes on a busy core, where a turn is
20 to 40 ms.
"""
_LONGEST_WAIT_SECONDS = 1.5
"""The longest queue of handshakes. Clients that lost their node give up a try after 2 s."""
_LONGEST_PROMISE_SECONDS = 60.0
_SUSPENDED_SECONDS = 0.250
"""A longer turn means that the process was suspended, which says nothing about the next turns."""
_PACE_SECONDS = 1.0
"""The time for which the pace is measured. A burst of ends takes a turn of half a second."""

Start = Callable[[], float]
"""Starts a request or a handshake. Returns the seconds that it counts as. 0: its client is gone."""


class _Lane:
    """Those that wait for one part of the loop's time: addresses in turn, then credentials.

    Args:
        least_seconds: the least part of one turn.
        pace: the seconds of the loop for each that waits, until it is measured.
    """

    def __init__(self, least_seconds: float, pace: float) -> None:
        self._least_seconds = least_seconds
        # Of the recent turns that started any: their length, and how many they started.
        self._recent_seconds = _PACE_SECONDS / 10
        self._recent_starts = self._recent_seconds / pace
        self._used_seconds: dict[str, float] = {}
        self._used_of_all = 0.0
        self._most_of_address, self._most_of_all = _TURN_SECONDS, least_seconds
        self._waiting: OrderedDict[str, OrderedDict[str, deque[Start]]] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._promised_at = 0.0

    def add(self, address: str, credentials: str, start: Start) -> None:
        """Start one now, unless others of its address wait or this turn has no time for it."""
        if address not in self._waiting and self._has_time(address):
            self._start(address, start)
            return
        lines = self._waiting.setdefault(address, OrderedDict())
        lines.setdefault(credentials, deque()).append(start)
        self._counts[address] += 1

    def next_turn(self, last_turn_seconds: float) -> None:
        """Start those that wait, addresses in turn, as far as this turn has time."""
        of_others = max(0.0, last_turn_seconds - self._used_of_all)
        share = max(min(last_turn_seconds * _SHARE, _MOST_SECONDS), _MOST_SECONDS - of_others)
        self._most_of_address = max(_TURN_SECONDS, share)
        self._most_of_all = max(self._least_seconds, share)
        self._used_seconds.clear()
        self._used_of_all = 0.0
        waiting, started, skipped = self._waiting, 0, 0
        while skipped < len(waiting) and self._used_of_all < self._most_of_all:
            address = next(iter(waiting))
            if self._has_time(address):
                started += self._start(address, self._next_of(address))
                skipped = 0
            else:
                skipped += 1
            if address in waiting:
                waiting.move_to_end(address)
        if started:
            self._measure_pace(min(last_turn_seconds, _SUSPENDED_SECONDS), started)

    @property
    def is_in_use(self) -> bool:
        """Whether any was started in this turn, or waits."""
        return bool(self._used_of_all or self._waiting)

    def wait_of(self, address: str) -> float:
        """The seconds that one more of this address is expected to wait."""
        ahead = min(self._counts.total(), (self._counts[address] + 1) * len(self._waiting))
        return ahead * self._pace

    @property
    def _pace(self) -> float:
        """The seconds of the loop for each that is started while others wait."""
        return self._recent_seconds / self._recent_starts

    def _measure_pace(self, turn_seconds: float, started: int) -> None:
        """Add a turn to the recent ones. One long turn changes the pace by its length."""
        weight = 1 - turn_seconds / _PACE_SECONDS
        self._recent_seconds = self._recent_seconds * weight + turn_seconds
        self._recent_starts = self._recent_starts * weight + started

    def promise(self, address: str, now: float) -> float:
        """The seconds after which one that is rejected finds its turn, one after the other."""
        earliest = max(self._promised_at, now + self.wait_of(address)) + self._pace
        self._promised_at = min(earliest, now + _LONGEST_PROMISE_SECONDS)
        return self._promised_at - now

    def _has_time(self, address: str) -> bool:
        return (
            self._used_of_all < self._most_of_all
            and self._used_seconds.get(address, 0.0) < self._most_of_address
        )

    def _start(self, address: str, start: Start) -> bool:
        used_seconds = start()
        if not used_seconds:
            return False
        self._used_seconds[address] = self._used_seconds.get(address, 0.0) + used_seconds
        self._used_of_all += used_seconds
        return True

    def _next_of(self, address: str) -> Start:
        """Remove and return the first of an address. Its credentials go behind all others."""
        lines = self._waiting[address]
        credentials, line = lines.popitem(last=False)
        start = line.popleft()
        if line:
            lines[credentials] = line
        elif not lines:
            del self._waiting[address]
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
        return start


class AddressTurns:
    """Starts some requests and some handshakes of each address in each turn of the event loop.

    Requests and handshakes don't wait for each other. They have what deliveries leave of a turn,
    and in any case a small part. Where one address sends many at once, those of others come between
    them, and of the same address those with other credentials: behind a proxy all have one address.
    Where no other has any, the next turn follows at once.

    Args:
        seconds: a clock.
    """

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._requests = _Lane(_REQUESTS_SECONDS, _CALL_SECONDS)
        self._handshakes = _Lane(_TURN_SECONDS, _HANDSHAKE_SECONDS)
        self._turn_began: float | None = None

    async def wait(self, address: str, credentials: str = "", *, reads: bool = False) -> None:
        """Wait for a turn in which a request of this address may start.

        Args:
            credentials: as they were sent, not checked yet.
            reads: whether it only reads.
        """
        turn = asyncio.get_running_loop().create_future()

        def start() -> float:
            if turn.done():
                return 0.0
            turn.set_result(None)
            return _READ_SECONDS if reads else _CALL_SECONDS

        self._add(self._requests, address, credentials, start)
        await turn

    def call(self, address: str, handshake: Callable[[], bool]) -> None:
        """Call `handshake`: now, or in a turn in which this address may start one.

        Args:
            handshake: returns whether its client is still there. It must not raise.

        Raises:
            Overloaded: it would wait longer than clients do.
        """
        wait = self._handshakes.wait_of(address)
        if wait > _LONGEST_WAIT_SECONDS:
            raise Overloaded(
                "too many clients connect at the same time; nothing is lost, connect again a "
                "little later",
                code="reconnect_storm",
                retry_after_ms=int(self._handshakes.promise(address, self._seconds()) * 1000),
            )

        def start() -> float:
            started = self._seconds()
            is_there = handshake()
            return max(_HANDSHAKE_SECONDS, self._seconds() - started) if is_there else 0.0

        self._add(self._handshakes, address, "", start)

    def _add(self, lane: _Lane, address: str, credentials: str, start: Start) -> None:
        lane.add(address, credentials, start)
        if self._turn_began is None:
            self._turn_began = self._seconds()
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        now, began = self._seconds(), self._turn_began
        elapsed = 0.0 if began is None else now - began
        for lane in (self._handshakes, self._requests):
            lane.next_turn(elapsed)
        self._turn_began = None
        if self._handshakes.is_in_use or self._requests.is_in_use:
            self._turn_began = now
            asyncio.get_running_loop().call_soon(self._next_turn)
