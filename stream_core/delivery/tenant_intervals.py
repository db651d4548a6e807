"""The delivery interval of each tenant."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

from evenflow.stream_core.delivery.divided_control import DividedControl


class TenantInterval:
    """What a tenant's streams read at each delivery."""

    __slots__ = ("__weakref__", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        """Slots between two deliveries of a stream, unless its window is longer."""


class TenantIntervals:
    """Gives each tenant the interval of those over their share, or that of all others.

    Args:
        shortest, usual, longest: in slots.
    """

    __slots__ = ("_control", "_of", "over")

    def __init__(self, shortest: int, usual: int, longest: int) -> None:
        self._control = DividedControl(shortest, usual, longest)
        # As long as a stream has it.
        self._of: WeakValueDictionary[str, TenantInterval] = WeakValueDictionary()
        self.over: frozenset[str] = frozenset()
        """The tenants that take more than their share."""

    @property
    def several(self) -> bool:
        """Whether more than one tenant has streams here, or had when they were divided."""
        return len(self._of) > 1 or bool(self.over)

    @property
    def slots(self) -> int:
        """Of a tenant that takes no more than its share."""
        return self._control.others

    @property
    def longest(self) -> int:
        """Slots of who has most."""
        return self._control.over

    @property
    def stretched(self) -> int:
        """How many tenants are delivered to less often, since they are over their share."""
        return len(self.over) if self._control.stretched else 0

    def of(self, tenant: str) -> TenantInterval:
        """A tenant's interval, for a stream that keeps it."""
        interval = self._of.get(tenant)
        if interval is None:
            interval = self._of[tenant] = TenantInterval(self._slots_of(tenant))
        return interval

    def measured(self, load: float, speed: float) -> None:
        """Adapt the intervals to what the last one has shown, as `DividedControl.measured`."""
        before = self.slots, self.longest
        self._control.measured(load, speed)
        if before != (self.slots, self.longest):
            self._tell()

    def divide(self, readers: Mapping[str, int], over: frozenset[str]) -> None:
        """Note which tenants are over their share now. While nobody is delivered to all stays.

        Args:
            readers: of each tenant, to how many there is to deliver.
            over: some of these.
        """
        if not readers:
            return
        deliveries = sum(
            count / max(1, self._slots_of(tenant)) for tenant, count in readers.items()
        )
        of_over = sum(readers[tenant] for tenant in over)
        self._control.divide(deliveries, of_over, sum(readers.values()) - of_over)
        self.over = over
        self._tell()

    def _slots_of(self, tenant: str) -> int:
        return self.longest if tenant in self.over else self.slots

    def _tell(self) -> None:
        for tenant, interval in self._of.items():
            interval.slots = self._slots_of(tenant)
