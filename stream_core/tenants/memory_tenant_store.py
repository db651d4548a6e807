"""The tenants' records in the memory of one process."""

from __future__ import annotations

from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.tenant_store import StoredTenants, TenantChanged


class MemoryTenantStore:
    """The tenants' records in memory (`TenantStore`)."""

    def __init__(self) -> None:
        self._records: dict[str, Tenant] = {}
        self._revision = 0

    async def revision(self) -> int:
        return self._revision

    async def load(self) -> StoredTenants:
        records = (self._records[tenant_id] for tenant_id in sorted(self._records))
        return StoredTenants.of(records, self._revision)

    async def put(self, tenant: Tenant, revision: int) -> None:
        self._count(revision)
        self._records[tenant.id] = tenant

    async def delete(self, tenant_id: str, revision: int) -> None:
        self._count(revision)
        self._records[tenant_id] = Tenant(id=tenant_id, removed=True)

    def _count(self, revision: int) -> None:
        if revision != self._revision:
            raise TenantChanged(f"the records are at revision {self._revision}, not {revision}")
        self._revision += 1
