"""Two delivery intervals: who takes more than their share is delivered to less often first."""

from __future__ import annotations

from itertools import chain

from evenflow.stream_core.delivery.interval_control import ALMOST, FULL, IntervalControl

# Sums of fractions that should be the same may not be.
_ROUNDING = 1 + 1e-9


class DividedControl:
    """The slots between two deliveries: of those over their share, and of all others.

    While the work doesn't fit, the first ones have more, up to the longest. Only then have the
    others, who come back first. Each step is one of `IntervalControl`, so nothing swings. Where
    nobody is over their share all have one interval, and it is as long as `IntervalControl` says.

    Args:
        shortest, usual, longest: in slots.
    """

    __slots__ = ("_longest", "_others", "_over", "_readers_of_others", "_readers_over", "_usual")

    def __init__(self, shortest: int, usual: int, longest: int) -> None:
        self._usual = usual
        self._longest = longest
        self._others = IntervalControl(shortest, usual, longest)
        self._over = IntervalControl(shortest, usual, longest)
        self._readers_over = self._readers_of_others = 0

    @property
    def over(self) -> int:
        """The slots of those over their share. No fewer than the others'."""
        return self._over.slots

    @property
    def others(self) -> int:
        """The slots of all others: no more than usual, unless `over` is the longest."""
        return self._others.slots

    @property
    def stretched(self) -> bool:
        """Whether anybody has more slots than usual."""
        return self._over.slots > self._usual

    def measured(self, load: float, speed: float) -> None:
        """Adapt the slots to what an interval has shown.

        Args:
            load: from 0 to 1.
            speed: how fast the wheel turned, 1 being in time.
        """
        over, others, is_full = self._over, self._others, load > FULL
        if not self._readers_over or not (is_full or self.stretched):
            over.slots = others.measured(load, speed)
        elif others.slots > self._usual:
            before = others.slots
            if others.measured(load, speed) == before and not is_full:
                self._ease_others(load)
        elif is_full and over.slots == self._longest:
            others.measured(load, speed)
        else:
            over.measured(load, speed)
            others.slots = max(others.slots, min(over.slots, self._usual))

    def _ease_others(self, load: float) -> None:
        """Take a slot from the others where it fits, if only their part of the load grows."""
        others = self._others.slots
        part = self._readers_of_others / others
        part /= part + self._readers_over / self._longest
        if load * (1 + part / (others - 1)) <= ALMOST:
            self._others.slots -= 1

    def divide(self, deliveries: float, over: int, others: int) -> None:
        """Note to how many readers there is to deliver: of those over their share, and of others.

        Where they are stretched, both get the first slots, in the order in which these lengthen,
        that make no more deliveries than there were. So it is about the same work.

        Args:
            deliveries: in a slot, so far.
        """
        self._readers_over, self._readers_of_others = over, others
        if self.stretched:
            self._over.slots, self._others.slots = next(
                (long, short)
                for long, short in self._steps()
                if over / long + others / short <= deliveries * _ROUNDING
            )

    def _steps(self) -> chain[tuple[int, int]]:
        """What `over` and `others` may be, while anybody is stretched, from the shortest on."""
        lengths = range(self._usual, self._longest + 1)
        if not self._readers_over:
            return chain((slots, slots) for slots in lengths)
        return chain(
            ((slots, self._usual) for slots in lengths),
            ((self._longest, slots) for slots in lengths),
        )
