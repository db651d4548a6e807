"""How long the delivery interval is: the load of the event loop, measured, and a control law."""

from __future__ import annotations

from math import ceil

# A turn that begins later than this found its thread busy, or without a core. Timers are no more
# exact.
_PUNCTUAL_SECONDS = 0.002
# A thread that had no core for longer was suspended: that says nothing about the load.
_SUSPENDED_SECONDS = 0.250


class LoopLoad:
    """Measures in which share of the time the event loop's thread could not wait.

    That is the time in which it computed, and the time in which it was wanted and had no core: a
    neighbour that takes half of the core doubles the load.

    Args:
        now: seconds on a monotonic clock. So is every `now` of this class.
    """

    __slots__ = ("_began_at", "_busy", "_taken", "_turn_at")

    def __init__(self, now: float) -> None:
        self._began_at = self._turn_at = now
        self._busy = 0.0
        self._taken = 0.0

    def turn_begins(self, now: float, busy: float, late: float) -> None:
        """A turn of the clock begins, `late` seconds after its time.

        Args:
            busy: CPU seconds of the thread so far.
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
        """The turn ends. All of it counts."""
        self._taken += now - self._turn_at
        self._turn_at, self._busy = now, busy

    def elapsed(self, now: float) -> float:
        """Seconds since the last reading. Time in which the thread was suspended is left out."""
        return now - self._began_at

    def read(self, now: float) -> float:
        """The load since the last reading, from 0 to 1."""
        load = self._taken / max(now - self._began_at, 1e-6)
        self._began_at, self._taken = now, 0.0
        return min(load, 1.0)


# Above this load the work of an interval does not fit into it.
_FULL = 0.95
# A shorter interval must leave so much room. The distance to `_FULL` keeps it from swinging.
_ROOMY = 0.80
# Up to this load the node is calm.
_CALM = 0.50
_LONGEST_STEP = 1.25
# Faster than time by so much: the wheel catches up, so the interval is long enough.
_CATCHING_UP = 1.05


class IntervalControl:
    """The slots between two deliveries: as few as fit, given the load after each interval.

    The node is calm: `shortest`. From there to 80 % load they go up to `usual`, and stay there
    until the work doesn't fit. Then they go up to `longest`, by at most a quarter or a slot at
    once. They go down, by less than half at once, as soon as the load at fewer slots is expected to
    be at most 80 %.

    Args:
        shortest, usual, longest: in slots.
    """

    __slots__ = ("_elastic", "_longest", "_shortened", "_shortest", "_usual", "slots")

    def __init__(self, shortest: int, usual: int, longest: int) -> None:
        self._shortest = shortest
        self._usual = usual
        self._longest = longest
        # The share of the load that grows as the interval shortens. All of it, until a shorter one
        # has shown otherwise: tokens that come once in several intervals cost the same at each.
        self._elastic = 1.0
        self._shortened: tuple[int, float] | None = None  # from so many slots, at this load
        self.slots = shortest

    def measured(self, load: float, speed: float) -> int:
        """Adapt the slots to what an interval has shown. Returns them.

        Args:
            load: from 0 to 1.
            speed: how fast the wheel turned, 1 being in time.
        """
        before = self.slots
        self._learn(load)
        if load > _FULL:
            if speed < _CATCHING_UP:
                self.slots = self._lengthened(speed)
        elif before > self._usual:
            self.slots = self._shortened_at(load)
        else:
            self.slots = self._eased(load)
        if self.slots < before:
            self._shortened = before, load
        return self.slots

    def _learn(self, load: float) -> None:
        """See how much the load has grown with the last shortening."""
        if load > _FULL:
            self._elastic = 1.0
        elif self._shortened is not None:
            before, load_before = self._shortened
            grown_by = load / max(load_before, 0.01) - 1
            self._elastic = min(max(grown_by / _shorter_by(before, self.slots), 0.0), 1.0)
        self._shortened = None

    def _lengthened(self, speed: float) -> int:
        needed = ceil(self.slots / max(speed, 0.01))
        step = max(min(needed, int(self.slots * _LONGEST_STEP)), self.slots + 1)
        return min(self._longest, max(step, self._usual))

    def _shortened_at(self, load: float) -> int:
        """The fewest slots at which the load is expected to leave room."""
        elastic = load * self._elastic
        room = _ROOMY - load + elastic
        fewest = ceil(self.slots * elastic / room - 1e-9) if room > 0 else self.slots
        # More than half of the slots, so that no stream has twice another's interval.
        return min(self.slots, max(fewest, self._usual, self.slots // 2 + 1))

    def _eased(self, load: float) -> int:
        """One slot nearer to what the load asks for, and would ask for there."""
        more, fewer = self.slots + 1, self.slots - 1
        if self._asked_for(load) >= more:
            return more
        expected = load * (1 + self._elastic * _shorter_by(self.slots, fewer))
        return fewer if self._asked_for(expected) <= fewer else self.slots

    def _asked_for(self, load: float) -> float:
        share = min(max((load - _CALM) / (_ROOMY - _CALM), 0.0), 1.0)
        return self._shortest + share * (self._usual - self._shortest)


def _shorter_by(before: int, slots: int) -> float:
    """How many more intervals there are, as a share. Without any, each token is one."""
    return before / max(slots, 0.5) - 1
