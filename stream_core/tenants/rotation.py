"""Rotates a tenant's key: for a while both the old one and the new one are valid."""

from __future__ import annotations

from evenflow.stream_core.tenants.tenant import ApiKey, Tenant


class KeyUnclear(Exception):
    """The key to replace is ambiguous or missing. The message names the keys that exist."""


def rotated(
    tenant: Tenant, new_key: ApiKey, *, now: float, overlap: float, key_id: str | None = None
) -> Tenant:
    """The record with a new key, which has the scopes, limits and account of the key it replaces.
    So the usage of the old key still counts.

    Keys that have expired are left out. If there is none to replace, the new one is as it is.

    Args:
        now: seconds since the epoch.
        overlap: the seconds for which the old key stays valid. Its end never gets later.
        key_id: the key to replace. None: the only one that isn't being replaced already.

    Raises:
        KeyUnclear: there is no such key, or several may be meant.
    """
    valid = [key for key in tenant.keys if key.is_valid(now)]
    old = _to_replace(tenant.id, valid, key_id)
    if old is None:
        return tenant.model_copy(update={"keys": (*valid, new_key)})
    until = now + overlap if old.expires_at is None else min(old.expires_at, now + overlap)
    ending = old.model_copy(update={"expires_at": until})
    followed = {"scopes": old.scopes, "limits": old.limits, "account": old.account_id}
    successor = new_key.model_copy(update=followed)
    kept = (ending if key is old else key for key in valid)
    keys = (*(key for key in kept if key.is_valid(now)), successor)
    return tenant.model_copy(update={"keys": keys})


def _to_replace(tenant_id: str, valid: list[ApiKey], key_id: str | None) -> ApiKey | None:
    candidates = [
        key for key in valid if (key.expires_at is None if key_id is None else key.id == key_id)
    ]
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(key.id for key in valid)
    if key_id is not None:
        raise KeyUnclear(
            f"tenant {tenant_id} has no valid key {key_id}; it has {names or 'none at all'}"
        )
    if candidates:
        raise KeyUnclear(f"tenant {tenant_id} has the keys {names}: say which one with --key")
    return None
