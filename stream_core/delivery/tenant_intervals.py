"""The delivery interval of each tenant: tenants over their share have longer ones first."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from weakref import WeakValueDictionary

from evenflow.stream_core.delivery.interval_control import ALMOST, FULL, IntervalControl

# Sums of fractions that should be the same may not be.
_ROUNDING = 1 + 1e-9


class TwoIntervalControl:
    """The slots between two deliveries: of tenants over their share, and of all others.

    While the work doesn't fit, tenants over their share have more slots, up to the longest. Only
    then have the others, which come back first. Each step is one of `IntervalControl`, so nothing
    oscillates. Where no tenant is over its share all have the interval of one `IntervalControl`.

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
        """The slots of tenants over their share. No fewer than the others'."""
        return self._over.slots

    @property
    def others(self) -> int:
        """The slots of all others: no more than usual, unless `over` is the longest."""
        return self._others.slots

    @property
    def stretched(self) -> bool:
        """Whether any tenant has more slots than usual."""
        return self._over.slots > self._usual

    def adapt(self, load: float, speed: float) -> None:
        """Adapt the slots to the load of the last interval.

        Args:
            load: from 0 to 1.
            speed: how fast the wheel turned, 1 being in time.
        """
        over, others, is_full = self._over, self._others, load > FULL
        if not self._readers_over or not (is_full or self.stretched):
            over.slots = others.adapt(load, speed)
        elif others.slots > self._usual:
            before = others.slots
            if others.adapt(load, speed) == before and not is_full:
                self._ease_others(load)
        elif is_full and over.slots == self._longest:
            others.adapt(load, speed)
        else:
            over.adapt(load, speed)
            others.slots = max(others.slots, min(over.slots, self._usual))

    def _ease_others(self, load: float) -> None:
        """Take a slot from the others where it fits, if only their part of the load grows."""
        others = self._others.slots
        part = self._readers_of_others / others
        part /= part + self._readers_over / self._longest
        if load * (1 + part / (others - 1)) <= ALMOST:
            self._others.slots -= 1

    def divide(self, deliveries: float, over: int, others: int) -> None:
        """Set the readers of tenants over their share, and of all others.

        Where the intervals are stretched, both get the first slots, in the order in which these
        lengthen, that make no more deliveries than before. So the work stays about the same.

        Args:
            deliveries: in a slot, so far.
            over, others: readers.
        """
        self._readers_over, self._readers_of_others = over, others
        if self.stretched:
            self._over.slots, self._others.slots = next(
                (long, short)
                for long, short in self._steps()
                if over / long + others / short <= deliveries * _ROUNDING
            )

    def _steps(self) -> chain[tuple[int, int]]:
        """The values of `over` and `others` while they are stretched, from the shortest on."""
        lengths = range(self._usual, self._longest + 1)
        if not self._readers_over:
            return chain((slots, slots) for slots in lengths)
        return chain(
            ((slots, self._usual) for slots in lengths),
            ((self._longest, slots) for slots in lengths),
        )


class TenantInterval:
    """The interval that all streams of a tenant read at each delivery."""

    __slots__ = ("__weakref__", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        """Slots between two deliveries of a stream, unless its window is longer."""


class TenantIntervals:
    """Gives each tenant the interval of those over their share, or that of all others.

    Args:
        shortest, usual, longest: in slots.
    """

    __slots__ = ("_control", "_intervals", "over")

    def __init__(self, shortest: int, usual: int, longest: int) -> None:
        self._control = TwoIntervalControl(shortest, usual, longest)
        # By tenant, as long as a stream of the tenant has it.
        self._intervals: WeakValueDictionary[str, TenantInterval] = WeakValueDictionary()
        self.over: frozenset[str] = frozenset()
        """The tenants that take more than their share."""

    @property
    def has_several_tenants(self) -> bool:
        """Whether more than one tenant has streams here, or had when they were divided."""
        return len(self._intervals) > 1 or bool(self.over)

    @property
    def slots(self) -> int:
        """The interval of a tenant within its share, in slots."""
        return self._control.others

    @property
    def longest(self) -> int:
        """The longest interval of a tenant, in slots."""
        return self._control.over

    @property
    def stretched(self) -> int:
        """The number of tenants with a longer interval, since they are over their share."""
        return len(self.over) if self._control.stretched else 0

    def interval_of(self, tenant: str) -> TenantInterval:
        """A tenant's interval, for a stream that keeps it."""
        interval = self._intervals.get(tenant)
        if interval is None:
            interval = self._intervals[tenant] = TenantInterval(self._slots_of(tenant))
        return interval

    def adapt(self, load: float, speed: float) -> None:
        """Adapt the intervals to the load of the last one, as `TwoIntervalControl.adapt`."""
        before = self.slots, self.longest
        self._control.adapt(load, speed)
        if before != (self.slots, self.longest):
            self._update_intervals()

    def divide(self, readers: Mapping[str, int], over: frozenset[str]) -> None:
        """Set which tenants are over their share. Without any reader nothing changes.

        Args:
            readers: the number of readers by tenant.
            over: some of these tenants.
        """
        if not readers:
            return
        deliveries = sum(
            count / max(1, self._slots_of(tenant)) for tenant, count in readers.items()
        )
        readers_over = sum(readers[tenant] for tenant in over)
        self._control.divide(deliveries, readers_over, sum(readers.values()) - readers_over)
        self.over = over
        self._update_intervals()

    def _slots_of(self, tenant: str) -> int:
        return self.longest if tenant in self.over else self.slots

    def _update_intervals(self) -> None:
        for tenant, interval in self._intervals.items():
            interval.slots = self._slots_of(tenant)
