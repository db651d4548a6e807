"""The tenants in force, and whose key a key is."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from evenflow.stream_core.protocol.errors import NotPermitted
from evenflow.stream_core.tenants.tenant import NO_LIMITS, ApiKey, Tenant, digest_of

GIVEN_KEY = "given"
"""The id of a key that the operator has set, beside the records."""
_MOST_PAST_KEYS = 100


class KnownKey(NamedTuple):
    """A valid key, and whose it is."""

    tenant: Tenant
    key: ApiKey


@lru_cache(maxsize=10_000)
def _without_record(tenant_id: str) -> Tenant:
    """The record of a tenant that has none. It is asked for many times with each message."""
    return Tenant(id=tenant_id)


class Tenants:
    """Tenants by their records, and by keys that the operator has set beside them.

    Args:
        given_keys: keys by tenant, as a setting or a secret has them.
        records: of tenants.
        known: False where this process isn't told the keys. Then an empty registry doesn't mean
            that there are none.
        identified: whether callers show a key, or the token of an identity provider, also as the
            open tenant.
        open_tenant: the tenant that opens sessions without its key. None: there is none.
    """

    def __init__(
        self,
        given_keys: Mapping[str, str] | None = None,
        records: Iterable[Tenant] = (),
        *,
        known: bool = True,
        identified: bool = False,
        open_tenant: str | None = None,
    ) -> None:
        self._known = known
        self._identified = identified
        self._open_tenant = open_tenant
        self._given: dict[str, ApiKey] = {}
        self._records: dict[str, Tenant] = {}
        self._by_digest: dict[str, tuple[str, ApiKey]] = {}
        self.replace_given_keys(given_keys or {})
        self.replace(records)

    @property
    def records(self) -> tuple[Tenant, ...]:
        """All records."""
        return tuple(self._records.values())

    @property
    def known_ids(self) -> frozenset[str]:
        """The tenants that have a record or a key."""
        return frozenset(self._records) | frozenset(self._given)

    @property
    def open_to_all(self) -> bool:
        """Whether no tenant has a key and nobody else says who callers are, so that they need
        none.
        """
        return self._known and not self._identified and not self._by_digest

    @property
    def several(self) -> bool:
        """Whether there may be more than one, as far as this process is told."""
        return not self._known or len(self._records.keys() | self._given.keys()) > 1

    def replace(self, records: Iterable[Tenant]) -> None:
        """Replace all records. Keys that are gone from one open nothing more."""
        self._records = {tenant.id: self._with_past_keys(tenant) for tenant in records}
        self._index()

    def replace_given_keys(self, given_keys: Mapping[str, str]) -> None:
        """Replace the keys that are set beside the records."""
        self._given = {tenant: ApiKey.of_text(GIVEN_KEY, key) for tenant, key in given_keys.items()}
        self._index()

    def of(self, tenant_id: str) -> Tenant:
        """A tenant's record. One without a record has no bounds of its own."""
        return self._records.get(tenant_id) or _without_record(tenant_id)

    def needs_key(self, tenant_id: str) -> bool:
        """Whether sessions of the tenant need a key, or the token of an identity provider."""
        if self._identified:
            return True
        has_key = tenant_id in self._given or bool(self.of(tenant_id).keys)
        return has_key and tenant_id != self._open_tenant

    def is_known(self, tenant_id: str) -> bool:
        """Whether it has a record or a key. What others use is nobody's."""
        return tenant_id in self._records or tenant_id in self._given

    def check_there(self, tenant_id: str, key_id: str) -> None:
        """Check that a tenant has not been removed since its key opened a session.

        Args:
            key_id: of the key. Empty: there was none.

        Raises:
            NotPermitted: it has been.
        """
        if self._known and key_id and not self.is_known(tenant_id):
            raise NotPermitted(
                f"tenant {tenant_id!r} has been removed; nothing was accepted, what was answered "
                "can still be read",
                code="tenant_removed",
            )

    def with_key(self, given: str | None, now: float) -> KnownKey | None:
        """Whose key this is. None if there is no such key, or it has expired.

        Args:
            now: seconds since the epoch.
        """
        # The digest of a guess says nothing about the key, so it may be looked up.
        digest = digest_of(given or "")
        tenant_id, key = self._by_digest.get(digest, ("", None))
        if key is None or not hmac.compare_digest(digest, key.digest) or not key.is_valid(now):
            return None
        return KnownKey(self.of(tenant_id), key)

    def _with_past_keys(self, record: Tenant) -> Tenant:
        """A record with the bounds of keys that it has lost: sessions that they opened go on."""
        before = self._records.get(record.id)
        known = {key.id for key in record.keys}
        past = [
            key.model_copy(update={"expires_at": 0.0})
            for key in (() if before is None else before.keys)
            if key.id not in known and key.limits != NO_LIMITS
        ]
        return record.model_copy(update={"keys": (*record.keys, *past[-_MOST_PAST_KEYS:])})

    def _index(self) -> None:
        self._by_digest = {
            key.digest: (tenant.id, key) for tenant in self._records.values() for key in tenant.keys
        } | {key.digest: (tenant_id, key) for tenant_id, key in self._given.items()}
