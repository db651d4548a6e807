"""The delivery clock: one wheel of slots for everything that has a time."""

from __future__ import annotations

from math import ceil
from typing import Protocol

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.interval_control import LoopLoad
from evenflow.stream_core.delivery.tenant_intervals import TenantIntervals


class Due(Protocol):
    """An entry of a slot."""

    def on_due(self, slot: int) -> None:
        """Called when the wheel reaches `slot`, or later."""


class TimerWheel:
    """Calls entries when their slot is reached.

    An entry can't be removed. One that no longer matters ignores the call, which costs less.
    """

    __slots__ = ("_done", "_slots", "position")

    def __init__(self, position: int = 0) -> None:
        self._slots: dict[int, list[Due]] = {}
        self._done = 0  # entries of the current slot that were called
        self.position = position
        """The current slot. All slots before it are empty."""

    def put(self, entry: Due, slot: int) -> None:
        """Call `entry.on_due` when the wheel reaches `slot`. A past slot is the current one."""
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

# A clock that is later than this skips the lost time, and does not catch up.
_SLIP_SECONDS = 0.250
_SMOOTHING = 0.2
# The shortest time for which a load is measured.
_SHORTEST_WINDOW_SECONDS = 0.1


def slots_of(milliseconds: int) -> int:
    """The fewest slots that last at least `milliseconds`."""
    return ceil(milliseconds / SLOT_MS)


class DeliveryClock(TimerWheel):
    """A wheel with a time for each slot, and the intervals of all streams' deliveries.

    Args:
        now: seconds on any monotonic clock.
        limits: the windows of chat and of requests, and the longest interval.
    """

    __slots__ = (
        "_epoch",
        "_load",
        "_read_position",
        "_spread",
        "_target",
        "_window",
        "intervals",
        "lateness",
        "load",
        "usual_slots",
    )

    def __init__(self, now: float, limits: Limits) -> None:
        super().__init__()
        self._epoch = now
        self.usual_slots = slots_of(limits.batch_window_ms)
        """Slots between two deliveries of a chat's answer while the work fits."""
        self.intervals = TenantIntervals(
            slots_of(limits.request_window_ms),
            self.usual_slots,
            slots_of(limits.batch_window_max_ms),
        )
        self._load = LoopLoad(now)
        self._window = _SHORTEST_WINDOW_SECONDS
        self._read_position = 0
        self._target = 0
        self._spread = 0
        self.lateness = 0.0
        """How late slots are reached, in seconds, smoothed."""
        self.load = 0.0
        """The share of the last interval in which the event loop could not wait."""

    @property
    def interval(self) -> float:
        """Seconds between two deliveries of a chat's answer, of a tenant within its share."""
        return max(self.intervals.slots, self.usual_slots) * SLOT_SECONDS

    def put_after(self, entry: Due, seconds: float) -> int:
        """Call `entry.on_due` after at least `seconds`. Returns the slot."""
        # While the clock is behind, the present is the slot that the turn is to reach.
        slot = max(self.position, self._target) + 1 + ceil(seconds / SLOT_SECONDS)
        self.put(entry, slot)
        return slot

    def spread(self, earlier: int, interval: int) -> int:
        """The slot for the next delivery of a stream after a change of its interval.

        Streams that change at the same time get the slots between the two intervals in turn, so
        they don't continue together. `earlier` is 0 for a stream that begins.
        """
        places = interval - min(max(earlier, 1), interval) + 1
        sooner, self._spread = self._spread % places, self._spread + 1
        return self.position + interval - sooner

    def begin_turn(self, now: float, busy: float = 0.0) -> int:
        """Begin a turn. Returns the slot to turn to.

        Args:
            busy: CPU seconds of the process so far.
        """
        late = now - self.next_turn_at()
        self._load.turn_begins(now, busy, late)
        if late > _SLIP_SECONDS:
            self._epoch += late - _SLIP_SECONDS
        self.lateness += (min(max(late, 0.0), _SLIP_SECONDS) - self.lateness) * _SMOOTHING
        self._target = int((now - self._epoch) / SLOT_SECONDS)
        return self._target

    def end_turn(self, now: float, busy: float = 0.0) -> None:
        """End a turn, which may not have reached its slot. Adapts the intervals to the load."""
        self._load.turn_ends(now, busy)
        elapsed = self._load.elapsed(now)
        if elapsed < self._window:
            return
        speed = (self.position - self._read_position) * SLOT_SECONDS / elapsed
        self.load, self._read_position = self._load.read(now), self.position
        earlier = self.intervals.longest
        self.intervals.adapt(self.load, speed)
        # Within a window every stream takes the new interval, even one that has just moved.
        longest = max(earlier, self.intervals.longest)
        self._window = max(_SHORTEST_WINDOW_SECONDS, longest * SLOT_SECONDS)

    def next_turn_at(self) -> float:
        """When the next slot begins, in seconds on the clock of `now`."""
        return self._epoch + self.position * SLOT_SECONDS
