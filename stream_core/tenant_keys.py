"""The tenants' keys that a node knows, and whose a given one is."""

from __future__ import annotations

from stream_core.session_token import tenant_key_matches


class TenantKeys:
    """Tenant → key.

    Args:
        known: False where tenants have keys that this node isn't told; that it has none then means nothing.
    """

    def __init__(self, by_tenant: dict[str, str], *, known: bool = True) -> None:
        self._known = known
        self._by_tenant = by_tenant

    @property
    def by_tenant(self) -> dict[str, str]:
        """The keys."""
        return self._by_tenant

    def replace(self, by_tenant: dict[str, str]) -> None:
        """These from now on, all others are none any more."""
        self._by_tenant = by_tenant

    @property
    def open_to_all(self) -> bool:
        """Whether no tenant has a key, so that nobody needs one."""
        return self._known and not self._by_tenant

    def tenant_of(self, given: str | None) -> str | None:
        """The tenant whose key this is."""
        # Each is looked at, so that the time says nothing of which one it is.
        matching = [tenant for tenant, key in self._by_tenant.items() if tenant_key_matches(given, key)]
        return matching[0] if matching else None
