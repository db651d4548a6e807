"""The delivery clock: one wheel of 10 ms slots that moves every stream, and the interval at which they move.

When the event loop is late the clock lengthens everyone's interval evenly instead of letting some streams stutter: an
even 100 ms reads better than a ragged 50. Pure arithmetic: `fargate_handler.clock_driver` turns it.
"""

from __future__ import annotations

from math import ceil

from stream_core.timer_wheel import Due, TimerWheel

SLOT_MS = 10
SLOT_SECONDS = SLOT_MS / 1000

# Behind by more than this, the clock gives up the lost time: everything happens later, evenly, and nothing in a rush.
_SLIP_SECONDS = 0.250
# Late by a slot on average: lengthen. Late by less than a fifth of one: shorten.
_LATE_SECONDS = SLOT_SECONDS
_CALM_SECONDS = SLOT_SECONDS / 5
_SMOOTHING = 0.2
_LENGTHEN_FACTOR = 1.25
# Lengthening acts fast (a few intervals), shortening slowly, so that the interval does not swing.
_LENGTHEN_EVERY_SECONDS = 0.25
_SHORTEN_EVERY_SECONDS = 2.0


class DeliveryClock(TimerWheel):
    """A wheel that knows the time of its slots, and the current interval.

    Args:
        now: seconds on any monotonic clock.
        shortest_ms, longest_ms: bounds of the delivery interval, milliseconds.
    """

    __slots__ = ("_changed_at", "_epoch", "_longest", "_shortest", "_target", "interval", "interval_slots", "lateness")

    def __init__(self, now: float, shortest_ms: int, longest_ms: int) -> None:
        super().__init__()
        self._epoch = now
        self._shortest = max(1, ceil(shortest_ms / SLOT_MS))
        self._longest = max(self._shortest, ceil(longest_ms / SLOT_MS))
        self._changed_at = now
        self._target = 0
        self.lateness = 0.0
        """Smoothed seconds by which slots are reached too late."""
        self.interval_slots = self._shortest
        """Slots between two deliveries of one stream, the same for all."""
        self.interval = self._shortest * SLOT_SECONDS
        """The same in seconds."""

    def put_after(self, entry: Due, seconds: float) -> int:
        """Call `entry.on_due` after at least `seconds`; returns the slot."""
        # While the clock is late, time is where the turn wants to get.
        slot = max(self.position, self._target) + 1 + ceil(seconds / SLOT_SECONDS)
        self.put(entry, slot)
        return slot

    def begin_turn(self, now: float) -> int:
        """Note how late this turn begins, adapt the interval, and return the slot to turn to."""
        late = now - self.next_turn_at()
        if late > _SLIP_SECONDS:
            self._epoch += late - _SLIP_SECONDS
        self._adapt(max(late, 0.0), now)
        self._target = int((now - self._epoch) / SLOT_SECONDS)
        return self._target

    def next_turn_at(self) -> float:
        """When the next slot begins, on the clock of `now`."""
        return self._epoch + self.position * SLOT_SECONDS

    def _adapt(self, late: float, now: float) -> None:
        self.lateness += (min(late, _SLIP_SECONDS) - self.lateness) * _SMOOTHING
        since = now - self._changed_at
        if self.lateness > _LATE_SECONDS and since >= _LENGTHEN_EVERY_SECONDS:
            longer = max(self.interval_slots + 1, int(self.interval_slots * _LENGTHEN_FACTOR))
            self._set_interval(min(self._longest, longer), now)
        elif self.lateness < _CALM_SECONDS and since >= _SHORTEN_EVERY_SECONDS:
            self._set_interval(max(self._shortest, self.interval_slots - 1), now)

    def _set_interval(self, slots: int, now: float) -> None:
        self.interval_slots = slots
        self.interval = slots * SLOT_SECONDS
        self._changed_at = now
