"""Who has asked lately, and so may ask again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice

_RECENT_SECONDS = 60.0
# Decisions depend on whether there are others, not on how many.
_MOST_TOLD = 2


class RecentTenants:
    """The tenants that asked within a minute, here or at other tasks."""

    def __init__(self) -> None:
        # The last one is last.
        self._here: dict[str, float] = {}
        self._elsewhere: dict[str, float] = {}

    def asks(self, tenant: str, now: float) -> None:
        """A tenant asks something here."""
        _note(self._here, tenant, now)

    def ask_elsewhere(self, tenants: Iterable[str], now: float) -> None:
        """Tenants have asked other tasks lately."""
        for tenant in tenants:
            _note(self._elsewhere, tenant, now)

    def here(self, now: float) -> list[str]:
        """The tenants that asked here, the last two at most."""
        return [*islice(_recent(self._here, now), _MOST_TOLD)]

    def several(self, now: float) -> bool:
        """Whether more than one tenant has asked."""
        last = {*islice(_recent(self._here, now), 2), *islice(_recent(self._elsewhere, now), 2)}
        return len(last) > 1

    def that_may_come(self, waiting: Container[str], now: float) -> list[str]:
        """Tenants that have asked and wait for nothing now. No more than two of here, and two of
        elsewhere.
        """
        asked = (self._here, self._elsewhere)
        recent = ((it for it in _recent(tenants, now) if it not in waiting) for tenants in asked)
        return [tenant for some in recent for tenant in islice(some, 2)]


def _note(asked_at: dict[str, float], tenant: str, now: float) -> None:
    asked_at.pop(tenant, None)
    asked_at[tenant] = now
    while now - asked_at[oldest := next(iter(asked_at))] > _RECENT_SECONDS:
        del asked_at[oldest]


def _recent(asked_at: dict[str, float], now: float) -> Iterator[str]:
    """Who has asked, the last one first."""
    for tenant, at in reversed(asked_at.items()):
        if now - at > _RECENT_SECONDS:
            return
        yield tenant
