"""The registry of tenants: their records, the tenant of a key, and the validity of keys."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from evenflow.stream_core.base.errors import AuthenticationFailed, NotPermitted
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant, digest_of

CONFIGURED_KEY = "given"
"""The id of a key that is configured, beside the records."""
_MOST_PAST_KEYS = 100
_MOST_UNKNOWN_KEYS = 10_000
# For keys that the records once had: a number before any read, so that they are not newer.
_REMOVED_KEY = -2


class KnownKey(NamedTuple):
    """A valid key, and its tenant."""

    tenant: Tenant
    key: ApiKey


@lru_cache(maxsize=10_000)
def _without_record(tenant_id: str) -> Tenant:
    """The record of a tenant without one. Cached: each message needs it many times."""
    return Tenant(id=tenant_id)


class Tenants:
    """Tenants with a record, and with keys that are configured beside the records.

    While no tenant has ever had a key, callers need none. From the first key on the registry is
    closed, and stays closed when the last tenant is removed.

    Args:
        configured_keys: keys by tenant, from a setting or a secret.
        records: of tenants.
        known: False if this process does not receive the keys. Then an empty registry does not mean
            that there are none.
        identified: whether callers need a key, or the token of an identity provider, even for the
            open tenant.
        claimed: whether the tokens of the identity provider name the tenant. Then, once there are
            records, only tenants with a record or a key are served.
        open_tenant: a tenant whose sessions need no key. None: none is configured.
        closed: whether callers need a key, though there may be none.
        wall_time: seconds since the epoch, by which keys expire. By default they don't.
    """

    def __init__(
        self,
        configured_keys: Mapping[str, str] | None = None,
        records: Iterable[Tenant] = (),
        *,
        known: bool = True,
        identified: bool = False,
        claimed: bool = False,
        open_tenant: str | None = None,
        closed: bool = False,
        wall_time: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._known = known
        self._identified = identified
        self._claimed = claimed
        self._open_tenant = open_tenant
        self._closed = closed
        self._wall_time = wall_time
        self._had_records = False
        self._configured: dict[str, ApiKey] = {}
        self._records: dict[str, Tenant] = {}
        self._removed: Collection[str] = frozenset()
        self._by_digest: dict[str, tuple[str, ApiKey]] = {}
        self._by_id: dict[tuple[str, str], ApiKey] = {}
        self._open_ids: frozenset[str] = frozenset()
        self.changes = 0
        """The number of replacements of records or keys."""
        self._reads = 0
        self._unknown_since: dict[tuple[str, str], int] = {}
        """Of each key that no record has: the number of reads before it was first shown."""
        self.replace_configured_keys(configured_keys or {})
        self.replace(records)

    @property
    def records(self) -> tuple[Tenant, ...]:
        """All records."""
        return tuple(self._records.values())

    @property
    def known_ids(self) -> frozenset[str]:
        """The tenants that have a record or a key."""
        return frozenset(self._records) | frozenset(self._configured)

    @property
    def open_to_all(self) -> bool:
        """Whether callers need no key.

        No tenant ever had one, and there is no identity provider.
        """
        return self._known and not self._identified and not self._closed

    @property
    def is_shut(self) -> bool:
        """Whether callers need a key, and no tenant has one or is open."""
        needed = self._closed and not self._identified and self._known
        return needed and not (self._by_digest or self._open_ids)

    @property
    def is_undecided(self) -> bool:
        """Whether this process has neither the keys nor any record."""
        return not (self._known or self._identified or self._closed)

    @property
    def open_ids(self) -> frozenset[str]:
        """The tenants whose sessions need no key, while sessions of other tenants do."""
        return self._open_ids

    @property
    def has_several(self) -> bool:
        """Whether there may be more than one, as far as this process knows."""
        return not self._known or len(self._records.keys() | self._configured.keys()) > 1

    def replace(
        self,
        records: Iterable[Tenant],
        *,
        removed: Collection[str] = frozenset(),
        closed: bool = False,
    ) -> None:
        """Replace all records. Keys that were removed from one are no longer valid.

        Args:
            removed: the tenants that were removed.
            closed: whether a tenant was removed, so that callers need a key though there may be
                none now.
        """
        before = self._by_id
        self._records = {tenant.id: self._with_past_keys(tenant) for tenant in records}
        self._removed = removed
        self._had_records |= closed or bool(self._records)
        self._closed |= closed
        self._index()
        self._unknown_since |= dict.fromkeys(before.keys() - self._by_id.keys(), _REMOVED_KEY)
        self.note_read()

    def note_read(self) -> None:
        """Record that the records were compared with those in the store, or replaced."""
        self._reads += 1

    def replace_configured_keys(self, configured_keys: Mapping[str, str]) -> None:
        """Replace the keys that are configured beside the records."""
        self._configured = {
            tenant: ApiKey.of_text(CONFIGURED_KEY, key) for tenant, key in configured_keys.items()
        }
        self._index()

    def of(self, tenant_id: str) -> Tenant:
        """A tenant's record. A tenant without one has no bounds."""
        return self._records.get(tenant_id) or _without_record(tenant_id)

    def is_open(self, tenant_id: str) -> bool:
        """Whether sessions of the tenant need neither a key nor the token of an identity
        provider.
        """
        return self.open_to_all or tenant_id in self._open_ids

    def is_known(self, tenant_id: str) -> bool:
        """Whether it has a record or a key. Usage of other tenants is not recorded."""
        return tenant_id in self._records or tenant_id in self._configured

    def check_served(self, tenant_id: str) -> None:
        """Check that a tenant that an identity provider names is served here.

        Raises:
            NotPermitted: it was removed, or others have records and it has none.
        """
        if tenant_id in self._removed and tenant_id not in self._configured:
            raise _removed(tenant_id)
        if self._claimed and self._had_records and self._known and not self.is_known(tenant_id):
            raise NotPermitted(
                f"tenant {tenant_id!r} is not served here: others have records, and it has none; "
                "nothing was done",
                code="tenant_unknown",
            )

    def check_valid(self, tenant_id: str, key_id: str) -> None:
        """Check that a tenant, and the key that opened a session of it, are still valid.

        A key that this process has never seen may be newer than the records it has read. It is
        valid until the records were read twice more.

        Args:
            key_id: of the tenant's key. Empty: the session was opened without one.

        Raises:
            NotPermitted: the tenant was removed.
            AuthenticationFailed: the key is no longer valid, or the session has none and now needs
                one.
        """
        self.check_served(tenant_id)
        if key_id and key_id != CONFIGURED_KEY:
            self._check_key(tenant_id, key_id)
        elif not self._known:
            return
        elif key_id:
            if not self.is_known(tenant_id):
                raise _removed(tenant_id)
        elif not (self._identified or self.is_open(tenant_id)):
            raise AuthenticationFailed(
                "this session was opened without a key, and this server needs one by now; nothing "
                "was done, POST /session with a tenant's key opens another",
                code="token_revoked",
            )

    def with_key(self, text: str | None, now: float) -> KnownKey | None:
        """The key with this text, and its tenant. None if it is unknown or has expired.

        Args:
            now: seconds since the epoch.
        """
        # The digest of a guess reveals nothing about a key, so that a lookup is safe.
        digest = digest_of(text or "")
        tenant_id, key = self._by_digest.get(digest, ("", None))
        if key is None or not hmac.compare_digest(digest, key.digest) or not key.is_valid(now):
            return None
        return KnownKey(self.of(tenant_id), key)

    def _check_key(self, tenant_id: str, key_id: str) -> None:
        key = self._by_id.get((tenant_id, key_id))
        if key is None and self._may_be_newer(tenant_id, key_id):
            return
        if key is None and not self.is_known(tenant_id):
            raise _removed(tenant_id)
        if key is None or not key.is_valid(self._wall_time()):
            raise AuthenticationFailed(
                f"key {key_id!r} of tenant {tenant_id!r} is no longer valid, nor is anything that "
                "it opened; nothing was done, POST /session with a valid key and the same "
                "session_id opens the session again",
                code="token_revoked",
            )

    def _may_be_newer(self, tenant_id: str, key_id: str) -> bool:
        if len(self._unknown_since) >= _MOST_UNKNOWN_KEYS:
            self._unknown_since.clear()
        since = self._unknown_since.setdefault((tenant_id, key_id), self._reads)
        return self._reads <= since + 1  # a read that had begun before may be older, too

    def _with_past_keys(self, record: Tenant) -> Tenant:
        """A record with the keys that were removed from it, as expired ones. What they opened is
        rejected at once, and running answers still count to their bounds.
        """
        before = self._records.get(record.id)
        known = {key.id for key in record.keys}
        past = [
            key.model_copy(update={"expires_at": 0.0})
            for key in (() if before is None else before.keys)
            if key.id not in known
        ]
        return record.model_copy(update={"keys": (*record.keys, *past[-_MOST_PAST_KEYS:])})

    def _index(self) -> None:
        self._by_digest = {
            key.digest: (tenant.id, key) for tenant in self._records.values() for key in tenant.keys
        } | {key.digest: (tenant_id, key) for tenant_id, key in self._configured.items()}
        self._by_id = {
            (tenant.id, key.id): key for tenant in self._records.values() for key in tenant.keys
        }
        by_record = {tenant.id for tenant in self._records.values() if tenant.open}
        by_setting = {self._open_tenant} if self._open_tenant else set()
        self._open_ids = frozenset() if self._identified else frozenset(by_record | by_setting)
        self._closed |= bool(self._by_digest)
        self.changes += 1


def _removed(tenant_id: str) -> NotPermitted:
    return NotPermitted(
        f"tenant {tenant_id!r} has been removed, with all that was opened for it; nothing was done",
        code="tenant_removed",
    )
