"""Who has asked lately, and so may ask again."""

from __future__ import annotations

from collections.abc import Container

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

    def others_may_come(self, tenant: str, waiting: Container[str], now: float) -> bool:
        """Whether another tenant has asked, and waits for nothing now."""
        for other, asked_at in reversed(self._asked_at.items()):
            if now - asked_at > _RECENT_SECONDS:
                return False
            if other != tenant and other not in waiting:
                return True
        return False
