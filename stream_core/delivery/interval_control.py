"""The length of the delivery interval: the measured load of the event loop, and a control law."""

from __future__ import annotations

from math import ceil

# A turn that begins later than this means that the loop was busy, or had no core. Timers are not
# more exact than this.
_PUNCTUAL_SECONDS = 0.002
# A process without a core for longer was suspended, which says nothing about the load.
_SUSPENDED_SECONDS = 0.250


class LoopLoad:
    """Measures the share of time in which an event loop could not wait.

    That is the time in which its process computed, and the time in which the loop was wanted and
    had no core. A neighbour that takes half of the core doubles the load.

    Args:
        now: seconds on a monotonic clock. So is every `now` of this class.
    """

    __slots__ = ("_began_at", "_busy", "_taken", "_turn_at")

    def __init__(self, now: float) -> None:
        self._began_at = self._turn_at = now
        self._busy = 0.0
        self._taken = 0.0

    def turn_begins(self, now: float, busy: float, late: float) -> None:
        """Record that a turn of the clock begins, `late` seconds after its time.

        Args:
            busy: CPU seconds of the process so far.
        """
        since = now - self._turn_at
        computed = min(busy - self._busy, since)
        kept = max(computed, min(late - _PUNCTUAL_SECONDS, since))
        if kept - computed > _SUSPENDED_SECONDS:
            self._began_at += kept - computed
            kept = computed
        self._taken += kept
        self._turn_at = now

    def turn_ends(self, now: float, busy: float) -> None:
        """Record that the turn ends. All of its time counts."""
        self._taken += now - self._turn_at
        self._turn_at, self._busy = now, busy

    def elapsed(self, now: float) -> float:
        """Seconds since the last reading. Time in which the process was suspended is left out."""
        return now - self._began_at

    def read(self, now: float) -> float:
        """The load since the last reading, from 0 to 1."""
        load = self._taken / max(now - self._began_at, 1e-6)
        self._began_at, self._taken = now, 0.0
        return min(load, 1.0)


FULL = 0.97
"""Above this load the work of an interval does not fit into it."""
ALMOST = 0.96
"""Up to this load it fits. It is below `FULL`, so that the interval does not oscillate."""
# Up to this load there is room for shorter intervals, if their load would not be above `ALMOST`
# even if all of it grew.
_ROOMY = 0.80
# Up to this load the node is calm.
_CALM = 0.50
_LONGEST_STEP = 1.25
# At this speed the wheel is faster than time: it catches up, so the interval is long enough.
_CATCHING_UP = 1.05
# Calm windows after which an interval is tried that might be too short.
_CALM_WINDOWS = 10


class IntervalControl:
    """Adapts the slots between two deliveries to the load: as few as fit.

    While the node is calm they are `shortest`. They go up to `usual` as the load goes to 80 %, and
    stay there until the work doesn't fit. Then they go on up to `longest`, by a quarter at most, or
    a slot, at once. They come down as soon as there is room, by less than half at once.

    Args:
        shortest, usual, longest: in slots.
    """

    __slots__ = ("_calm_windows", "_longest", "_shortest", "_usual", "slots")

    def __init__(self, shortest: int, usual: int, longest: int) -> None:
        self._shortest = shortest
        self._usual = usual
        self._longest = longest
        self._calm_windows = 0
        self.slots = shortest

    def adapt(self, load: float, speed: float) -> int:
        """Adapt the slots to the load of an interval. Returns them.

        Args:
            load: from 0 to 1.
            speed: how fast the wheel turned, 1 being in time.
        """
        self._calm_windows = self._calm_windows + 1 if load <= _CALM else 0
        if load > FULL:
            if speed < _CATCHING_UP:
                self.slots = self._lengthened(speed)
        elif self.slots <= self._usual:
            self.slots = self._eased(load)
        elif load <= _ROOMY:
            self.slots = self._shortened(load)
        return self.slots

    def _lengthened(self, speed: float) -> int:
        needed = ceil(self.slots / max(speed, 0.01))
        step = max(min(needed, int(self.slots * _LONGEST_STEP)), self.slots + 1)
        return min(self._longest, max(step, self._usual))

    def _shortened(self, load: float) -> int:
        """The fewest slots that fit, if all of the load grows as the interval shortens."""
        fewest = ceil(self.slots * load / ALMOST)
        # More than half of the slots, so that no stream has twice another's interval.
        return min(self.slots, max(fewest, self._usual, self.slots // 2 + 1))

    def _eased(self, load: float) -> int:
        """One slot nearer to the interval for this load."""
        slots, fewer = self.slots, self.slots - 1
        if self._slots_for(load) >= slots + 1:
            return slots + 1
        # Without any slots each token is a delivery.
        at_most = load * slots / max(fewer, 0.5)
        stays = self._slots_for(at_most) < slots
        if slots > self._shortest and (stays or self._calm_windows >= _CALM_WINDOWS):
            self._calm_windows = 0
            return fewer
        return slots

    def _slots_for(self, load: float) -> float:
        share = min(max((load - _CALM) / (_ROOMY - _CALM), 0.0), 1.0)
        return self._shortest + share * (self._usual - self._shortest)
