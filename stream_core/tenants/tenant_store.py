"""The port of the tenants' records, which administrators write and every node reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from evenflow.stream_core.tenants.tenant import Tenant


class TenantChanged(Exception):
    """A record was changed after they were loaded. Nothing was written: load again."""


@dataclass(frozen=True, slots=True)
class StoredTenants:
    """All records, by their ids, and the revision at which they were read.

    `removed`: the ids of tenants that were removed and not created again.
    """

    records: tuple[Tenant, ...] = ()
    revision: int = 0
    removed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, stored: Iterable[Tenant], revision: int) -> Self:
        """The records in a store, with removed tenants apart."""
        tenants = tuple(stored)
        records = tuple(tenant for tenant in tenants if not tenant.removed)
        return cls(records, revision, frozenset(each.id for each in tenants if each.removed))

    @property
    def had_tenants(self) -> bool:
        """Whether a tenant was removed. Older versions left only the revision."""
        return bool(self.removed) or (self.revision > 0 and not self.records)

    def find(self, tenant_id: str) -> Tenant | None:
        """A tenant's record. None if there is none."""
        return next((record for record in self.records if record.id == tenant_id), None)


class TenantStore(Protocol):
    """The records of all tenants. Each change counts their one revision up, from 0.

    Every method may raise StoreUnavailable.
    """

    async def revision(self) -> int:
        """The revision alone, in one small read."""

    async def load(self) -> StoredTenants:
        """All records. They may be newer than their revision, and are never older."""

    async def put(self, tenant: Tenant, revision: int) -> None:
        """Create or replace a record.

        Args:
            revision: at which the records were loaded.

        Raises:
            TenantChanged: there is a newer revision. Nothing was written.
        """

    async def delete(self, tenant_id: str, revision: int) -> None:
        """Mark a tenant as removed, even without a record.

        Args:
            revision: at which the records were loaded.

        Raises:
            TenantChanged: there is a newer revision. Nothing was deleted.
        """
