"""Time that passes only when a test says so, and the delivery clock that goes by it."""

from __future__ import annotations

import asyncio

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock
from evenflow.stream_core.delivery.tenant_intervals import TwoIntervalControl
from tests.unit.settle import settle

# So far into a slot, no rounding can place a moment in the slot before.
_INTO_SLOT = SLOT_SECONDS / 100
_SKIPPED_TOGETHER = 5


class HandTurnedClock:
    """Seconds and slots, turned by hand."""

    def __init__(self, shortest_ms: int = 50, longest_ms: int = 200, start: float = 1000.0) -> None:
        self.now = start
        limits = Limits(batch_window_ms=shortest_ms, batch_window_max_ms=longest_ms)
        self.delivery = DeliveryClock(start, limits)

    def hold_interval(self, slots: int) -> None:
        """From now on this is the interval, whatever the load."""
        self.delivery.intervals._control = TwoIntervalControl(slots, slots, slots)
        self.delivery.intervals._update_intervals()

    def monotonic(self) -> float:
        """Seconds, as `time.monotonic` would say."""
        return self.now

    def turn(self, seconds: float) -> None:
        """Let so much time pass; every slot is emptied when it begins."""
        until = self.now + seconds
        while (moment := self.delivery.next_turn_at() + _INTO_SLOT) <= until:
            if skipped := self._empty_slots(most=int((until - moment) / SLOT_SECONDS)):
                self.delivery.position += skipped
                moment = self.delivery.next_turn_at() + _INTO_SLOT
            self.now = max(self.now, moment)
            self.turn_late()
        self.now = max(self.now, until)

    def _empty_slots(self, most: int) -> int:
        """How many empty slots come next, at most `most` and so few that the load is still read
        in time.
        """
        wheel = self.delivery
        return next(
            (
                number
                for number in range(min(most, _SKIPPED_TOGETHER))
                if wheel.position + number in wheel._slots
            ),
            min(most, _SKIPPED_TOGETHER),
        )

    def drive_timers(self) -> None:
        """From now on the running loop's timers, of `asyncio.sleep` and of timeouts, go by this
        clock.
        """
        asyncio.get_running_loop().time = self.monotonic  # type: ignore[method-assign]

    async def pass_time(self, seconds: float, step: float = 0.01) -> None:
        """Let so much time pass, and tasks run as it does."""
        until = self.now + seconds
        while self.now < until:
            self.turn(min(step, until - self.now))
            await settle()

    def turn_slots(self, slots: int) -> None:
        """Empty the next `slots` slots, each in time."""
        for _ in range(slots):
            self.now = max(self.now, self.delivery.next_turn_at() + _INTO_SLOT)
            self.turn_late()

    def turn_late(self) -> None:
        """One turn, to where time has got meanwhile."""
        target = self.delivery.begin_turn(self.now)
        while not self.delivery.turn(target, 1000):
            pass
        self.delivery.end_turn(self.now)
