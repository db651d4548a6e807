"""Signing keys and tenants' keys: JSON objects in Secrets Manager."""

from __future__ import annotations

import json
import re
from typing import Any

from stream_core.policy.channel import NAME_PATTERN


class KeysUnreadable(Exception):
    """A secret does not hold what it must. The message names the rule that is broken, and no key."""


def parse_key_object(secret_string: str, *, called: str, shortest: int) -> dict[str, str]:
    """Name → key, in the order of the secret.

    Args:
        called: what the keys are called in messages.
        shortest: characters that a key must have at least.

    Raises:
        KeysUnreadable: not a JSON object of strings of that length, or a name stands twice.
    """
    try:
        pairs = json.loads(secret_string, object_pairs_hook=_Pairs)
    except ValueError:
        raise KeysUnreadable(f"the secret with the {called} is not JSON") from None
    if not isinstance(pairs, _Pairs):
        raise KeysUnreadable(f"the secret with the {called} is not a JSON object of names and keys")
    keys: dict[str, str] = {}
    for position, (name, key) in enumerate(pairs, start=1):
        # The name is not told either: whoever swapped names and keys would find the key in a log.
        entry = f"entry {position} of the {called}"
        if not name or name in keys:
            raise KeysUnreadable(f"{entry} has {'the name of an earlier one' if name else 'no name'}")
        if not isinstance(key, str) or len(key) < shortest:
            raise KeysUnreadable(f"{entry} is not a string of {shortest} characters or more")
        keys[name] = key
    return keys


class _Pairs(list[tuple[str, Any]]):
    """An object's members as they stand, so that a name that stands twice is seen."""


SHORTEST_SIGNING_KEY = 32
"""Characters; HS256 wants 32 bytes."""


def parse_signing_keys(secret_string: str) -> dict[str, bytes]:
    """Key id → key, the signing one first: what `SessionTokens` takes.

    Raises:
        KeysUnreadable: what is wrong with the secret, never its value.
    """
    keys = parse_key_object(secret_string, called="signing keys", shortest=SHORTEST_SIGNING_KEY)
    if not keys:
        raise KeysUnreadable("the secret with the signing keys has no key")
    return {kid: key.encode() for kid, key in keys.items()}


SHORTEST_TENANT_KEY = 16
"""Characters, as for the handler's setting `tenant_keys`."""

_NAME = re.compile(NAME_PATTERN)


def parse_tenant_keys(secret_string: str) -> dict[str, str]:
    """Tenant → key.

    Raises:
        KeysUnreadable: what is wrong with the secret, never its value.
    """
    keys = parse_key_object(secret_string, called="tenant keys", shortest=SHORTEST_TENANT_KEY)
    for position, tenant in enumerate(keys, start=1):
        if not _NAME.fullmatch(tenant):
            raise KeysUnreadable(f"entry {position} of the tenant keys has a name that no tenant can have")
    return keys
