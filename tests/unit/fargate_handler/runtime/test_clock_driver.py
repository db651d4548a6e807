"""How the loop's time is shared between deliveries and sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

from evenflow.fargate_handler.runtime.clock_driver import ClockDriver
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock


class _Endless:
    """An entry that is always due again, and takes a tenth of a millisecond."""

    def __init__(self, clock: DeliveryClock) -> None:
        self.calls = 0
        self.now = 0.0
        self._clock = clock

    def on_due(self, slot: int) -> None:
        self.calls += 1
        self.now += 0.0001
        self._clock.put(self, slot)


def test_a_saturated_clock_lets_the_loop_look_at_its_sockets_twice_between_two_turns() -> None:
    """At the first look connections are accepted, at the second they are greeted."""
    clock = DeliveryClock(0.0, Limits())
    entry = _Endless(clock)
    clock.put(entry, 0)
    ready: list[Callable[[], None]] = []
    loop = Mock(spec=asyncio.AbstractEventLoop)
    loop.call_soon = ready.append
    driver = ClockDriver(clock, loop, lambda: entry.now, lambda: None, busy=lambda: entry.now)
    driver.start()
    delivered = []
    for _ in range(9):
        (callback,) = ready
        ready.clear()
        before = entry.calls
        callback()
        delivered.append(entry.calls > before)
    assert delivered == [True, False] * 4 + [True]
