"""Reading a secret that is a JSON object of named keys. What is wrong is said, never the value."""

from __future__ import annotations

import json
from typing import Any


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
