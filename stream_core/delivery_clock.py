"""The delivery clock: one wheel of 10 ms slots that moves every stream, and the interval at which they move.

When the event loop is late the clock lengthens everyone's interval evenly instead of letting some streams stutter: an
even 100 ms reads better than a ragged 50. Pure arithmetic: `fargate_handler.clock_driver` turns it.
"""

from __future__ import annotations

from stream_core.timer_wheel import Due, TimerWheel

SLOT_SECONDS = 0.010

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


class DeliveryClock:
    """Slots, the current interval, and who is due when.

    Args:
        now: seconds on any monotonic clock.
        shortest_ms, longest_ms: bounds of the delivery interval, milliseconds.
    """

    __slots__ = ("_changed_at", "_epoch", "_late", "_longest", "_shortest", "_wheel", "interval_slots")

    def __init__(self, now: float, shortest_ms: int, longest_ms: int) -> None:
        self._wheel = TimerWheel()
        self._epoch = now
        self._shortest = max(1, round(shortest_ms / 1000 / SLOT_SECONDS))
        self._longest = max(self._shortest, round(longest_ms / 1000 / SLOT_SECONDS))
        self._late = 0.0
        self._changed_at = now
        self.interval_slots = self._shortest
        """Slots between two deliveries of one stream, the same for all."""

    @property
    def interval(self) -> float:
        """Seconds between two deliveries of one stream."""
        return self.interval_slots * SLOT_SECONDS

    @property
    def lateness(self) -> float:
        """Smoothed seconds by which slots are reached too late."""
        return self._late

    @property
    def slot(self) -> int:
        """The slot being emptied, or the next one to be."""
        return self._wheel.position

    def put(self, entry: Due, slot: int) -> None:
        """Call `entry.on_due` in `slot` (in the next turn, when that has passed)."""
        self._wheel.put(entry, slot)

    def put_after(self, entry: Due, seconds: float) -> int:
        """Call `entry.on_due` after at least `seconds`; returns the slot."""
        slot = self._wheel.position + 1 + int(seconds / SLOT_SECONDS)
        self._wheel.put(entry, slot)
        return slot

    def begin_turn(self, now: float) -> int:
        """Note how late this turn begins, adapt the interval, and return the slot to turn to."""
        late = now - (self._epoch + self._wheel.position * SLOT_SECONDS)
        if late > _SLIP_SECONDS:
            self._epoch += late - _SLIP_SECONDS
        self._adapt(max(late, 0.0), now)
        return int((now - self._epoch) / SLOT_SECONDS)

    def turn(self, target: int, most: int) -> bool:
        """Empty the slots up to `target`, at most `most` entries; whether the clock got there."""
        return self._wheel.turn(target, most)

    def next_turn_at(self) -> float:
        """When the next slot begins, on the clock of `now`."""
        return self._epoch + self._wheel.position * SLOT_SECONDS

    def _adapt(self, late: float, now: float) -> None:
        self._late += (min(late, _SLIP_SECONDS) - self._late) * _SMOOTHING
        since = now - self._changed_at
        if self._late > _LATE_SECONDS and since >= _LENGTHEN_EVERY_SECONDS:
            longer = max(self.interval_slots + 1, int(self.interval_slots * _LENGTHEN_FACTOR))
            self.interval_slots = min(self._longest, longer)
            self._changed_at = now
        elif self._late < _CALM_SECONDS and since >= _SHORTEN_EVERY_SECONDS:
            self.interval_slots = max(self._shortest, self.interval_slots - 1)
            self._changed_at = now
