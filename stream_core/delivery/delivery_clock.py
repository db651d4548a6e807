"""The delivery clock: one wheel of slots for everything that has a time."""

from __future__ import annotations

from math import ceil
from typing import Protocol


class Due(Protocol):
    """Something that can be put into a slot."""

    def on_due(self, slot: int) -> None:
        """Called when the wheel reaches the slot. `slot` is that one, and may be late."""


class TimerWheel:
    """Calls entries when their slot is reached.

    An entry can't be taken out. One that no longer matters ignores the call, which costs less.
    """

    __slots__ = ("_done", "_slots", "position")

    def __init__(self, position: int = 0) -> None:
        self._slots: dict[int, list[Due]] = {}
        self._done = 0  # how many entries of the current slot were called
        self.position = position
        """The current slot. All slots before it are empty."""

    def put(self, entry: Due, slot: int) -> None:
        """Call `entry.on_due` when the wheel reaches `slot`. One in the past is the current one."""
        slot = max(slot, self.position)
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [entry]
        else:
            entries.append(entry)

    def turn(self, target: int, most: int) -> bool:
        """Call the entries up to and including slot `target`, at most `most` of them.

        Returns:
            Whether the wheel has reached `target`. If not, the caller may do something else first.
        """
        slots = self._slots
        while self.position <= target:
            entries = slots.get(self.position)
            if entries is not None:
                most -= self._empty(entries, most)
                if self._done < len(entries):
                    return False
                del slots[self.position]
                self._done = 0
            self.position += 1
        return True

    def _empty(self, entries: list[Due], most: int) -> int:
        """Call at most `most` entries of the current slot. Returns how many were called."""
        slot, done, began = self.position, self._done, self._done
        try:
            # The list may grow while it is walked.
            while done < len(entries) and done - began < most:
                entry = entries[done]
                done += 1
                entry.on_due(slot)
        finally:
            self._done = done
        return done - began


SLOT_MS = 10
SLOT_SECONDS = SLOT_MS / 1000

# When the clock is more than this behind, it gives up the lost time: it catches up without a rush.
_SLIP_SECONDS = 0.250
# Late by a slot on average: lengthen the interval. Late by less than a fifth of one: shorten it.
_LATE_SECONDS = SLOT_SECONDS
_CALM_SECONDS = SLOT_SECONDS / 5
_SMOOTHING = 0.2
_LENGTHEN_FACTOR = 1.25
# It lengthens within a few intervals and shortens slowly, so that the interval does not swing.
_LENGTHEN_EVERY_SECONDS = 0.25
_SHORTEN_EVERY_SECONDS = 2.0


class DeliveryClock(TimerWheel):
    """A wheel whose slots have a time, and the delivery interval that all streams share.

    Args:
        now: seconds on any monotonic clock.
        shortest_ms, longest_ms: bounds of the delivery interval, in milliseconds.
    """

    __slots__ = (
        "_changed_at",
        "_epoch",
        "_longest",
        "_shortest",
        "_target",
        "interval",
        "interval_slots",
        "lateness",
    )

    def __init__(self, now: float, shortest_ms: int, longest_ms: int) -> None:
        super().__init__()
        self._epoch = now
        self._shortest = max(1, ceil(shortest_ms / SLOT_MS))
        self._longest = max(self._shortest, ceil(longest_ms / SLOT_MS))
        self._changed_at = now
        self._target = 0
        self.lateness = 0.0
        """By how many seconds slots are reached late, smoothed."""
        self.interval_slots = self._shortest
        """Slots between two deliveries of a stream."""
        self.interval = self._shortest * SLOT_SECONDS
        """Seconds between two deliveries of a stream."""

    def put_after(self, entry: Due, seconds: float) -> int:
        """Call `entry.on_due` after at least `seconds`. Returns the slot."""
        # While the clock is behind, the present is the slot that the turn is to reach.
        slot = max(self.position, self._target) + 1 + ceil(seconds / SLOT_SECONDS)
        self.put(entry, slot)
        return slot

    def begin_turn(self, now: float) -> int:
        """Begin a turn: adapt the interval to how late it is. Returns the slot to turn to."""
        late = now - self.next_turn_at()
        if late > _SLIP_SECONDS:
            self._epoch += late - _SLIP_SECONDS
        self._adapt(max(late, 0.0), now)
        self._target = int((now - self._epoch) / SLOT_SECONDS)
        return self._target

    def next_turn_at(self) -> float:
        """When the next slot begins, in seconds on the clock of `now`."""
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
