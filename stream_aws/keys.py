"""Signing keys and tenants' keys: JSON objects in Secrets Manager."""

from __future__ import annotations

import json
import re
from typing import Any

from evenflow.stream_core.base.channel import NAME_PATTERN


class KeysUnreadable(Exception):
    """A secret is wrong. The message names the broken rule, and no key."""


def parse_key_object(secret_string: str, *, called: str, shortest: int) -> dict[str, str]:
    """Read a secret's names and keys, in their order.

    Args:
        called: the name of the keys in messages.
        shortest: the fewest characters of a key.

    Raises:
        KeysUnreadable: it isn't a JSON object of strings of that length, or has a name twice.
    """
    try:
        pairs = json.loads(secret_string, object_pairs_hook=_Pairs)
    except ValueError:
        raise KeysUnreadable(f"the secret with the {called} is not JSON") from None
    if not isinstance(pairs, _Pairs):
        raise KeysUnreadable(f"the secret with the {called} is not a JSON object of names and keys")
    keys: dict[str, str] = {}
    for position, (name, key) in enumerate(pairs, start=1):
        # Without the name: if name and key are swapped, the key would be in a log.
        entry = f"entry {position} of the {called}"
        if not name or name in keys:
            raise KeysUnreadable(
                f"{entry} has {'the name of an earlier one' if name else 'no name'}"
            )
        if not isinstance(key, str) or len(key) < shortest:
            raise KeysUnreadable(f"{entry} is not a string of {shortest} characters or more")
        keys[name] = key
    return keys


class _Pairs(list[tuple[str, Any]]):
    """The members of an object in order, so that a repeated name is noticed."""


SHORTEST_SIGNING_KEY = 32
"""Characters of a signing key. HS256 needs 32 bytes."""


def parse_signing_keys(secret_string: str) -> dict[str, bytes]:
    """Read signing keys by key id, for `SessionTokens`. The first one signs.

    Raises:
        KeysUnreadable: the secret is wrong. The message has no key.
    """
    keys = parse_key_object(secret_string, called="signing keys", shortest=SHORTEST_SIGNING_KEY)
    if not keys:
        raise KeysUnreadable("the secret with the signing keys has no key")
    return {kid: key.encode() for kid, key in keys.items()}


SHORTEST_TENANT_KEY = 16
"""Characters of a tenant's key, as in the handler's setting `tenant_keys`."""

_NAME = re.compile(NAME_PATTERN)


def parse_tenant_keys(secret_string: str) -> dict[str, str]:
    """Read tenants' keys by tenant.

    Raises:
        KeysUnreadable: the secret is wrong. The message has no key.
    """
    keys = parse_key_object(secret_string, called="tenant keys", shortest=SHORTEST_TENANT_KEY)
    for position, tenant in enumerate(keys, start=1):
        if not _NAME.fullmatch(tenant):
            raise KeysUnreadable(
                f"entry {position} of the tenant keys has a name that no tenant may have"
            )
    return keys
