"""What tasks do for tenants, in the memory of one process."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.stream_core.tenants.tenant_activity import KEPT_SECONDS, Activity


class MemoryTenantActivity:
    """The activity of tenants in memory (`TenantActivity`)."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[Activity, float]] = {}

    async def note(self, rows: Sequence[Activity], now: float) -> None:
        self._rows = {key: row for key, row in self._rows.items() if row[1] > now}
        for row in rows:
            self._rows[row.tenant, row.task] = row, now + KEPT_SECONDS

    async def of(self, tenants: Sequence[str], now: float) -> Sequence[Activity]:
        wanted = set(tenants)
        return [row for row, until in self._rows.values() if row.tenant in wanted and until > now]
