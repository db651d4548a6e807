"""The tenants' records in SQLite."""

from __future__ import annotations

from functools import partial
from sqlite3 import Connection

from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.tenant_store import StoredTenants, TenantChanged
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes


class SQLiteTenantStore:
    """The tenants' records in SQLite (`TenantStore`)."""

    def __init__(self, writes: Writes, reads: Reads) -> None:
        self._writes = writes
        self._reads = reads

    async def revision(self) -> int:
        return await self._reads.run(_revision)

    async def load(self) -> StoredTenants:
        return await self._reads.run(_load)

    async def put(self, tenant: Tenant, revision: int) -> None:
        await self._writes.run(partial(_put, tenant=tenant, revision=revision), durable=True)

    async def delete(self, tenant_id: str, revision: int) -> None:
        await self.put(Tenant(id=tenant_id, removed=True), revision)


def _revision(connection: Connection) -> int:
    revision: int = connection.execute("SELECT revision FROM tenants_revision").fetchone()[0]
    return revision


def _load(connection: Connection) -> StoredTenants:
    rows = connection.execute("SELECT record FROM tenants ORDER BY id")
    records = (Tenant.from_text(record) for (record,) in rows)
    return StoredTenants.of(records, _revision(connection))


def _put(connection: Connection, tenant: Tenant, revision: int) -> None:
    _count(connection, revision)
    connection.execute(
        "INSERT OR REPLACE INTO tenants VALUES (?, ?)", (tenant.id, tenant.to_text())
    )


def _count(connection: Connection, revision: int) -> None:
    """Count the revision up, if it is this one. Nothing is written before."""
    cursor = connection.execute(
        "UPDATE tenants_revision SET revision = revision + 1 WHERE revision = ?", (revision,)
    )
    if not cursor.rowcount:
        raise TenantChanged(f"the records are at revision {_revision(connection)}, not {revision}")
