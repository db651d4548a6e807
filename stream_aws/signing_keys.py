"""The secret with the keys that sign session tokens: `{"<key id>": "<key>", …}`; the first signs, all verify."""

from __future__ import annotations

from stream_aws.key_object import KeysUnreadable, parse_key_object

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
