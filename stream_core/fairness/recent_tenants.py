"""Who has asked lately, and so may ask again."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice

_RECENT_SECONDS = 60.0


class RecentTenants:
    """The tenants that asked within a minute, the last one first."""

    def __init__(self) -> None:
        self._asked_at: dict[str, float] = {}

    def asks(self, tenant: str, now: float) -> None:
        """A tenant asks something."""
        self._asked_at.pop(tenant, None)
        self._asked_at[tenant] = now
        while now - self._asked_at[oldest := next(iter(self._asked_at))] > _RECENT_SECONDS:
            del self._asked_at[oldest]

    def several(self, now: float) -> bool:
        """Whether more than one tenant has asked."""
        last_two = islice(reversed(self._asked_at.values()), 2)
        return sum(now - asked_at <= _RECENT_SECONDS for asked_at in last_two) > 1

    def that_may_come(self, waiting: Container[str], now: float) -> list[str]:
        """Tenants that have asked and wait for nothing now. No more than the last two."""
        found: list[str] = []
        for tenant, asked_at in reversed(self._asked_at.items()):
            if now - asked_at > _RECENT_SECONDS or len(found) == 2:
                break
            if tenant not in waiting:
                found.append(tenant)
        return found
