"""The secret with the tenants' keys: `{"<tenant>": "<key>", …}`; `{}` leaves every tenant open."""

from __future__ import annotations

from stream_aws.key_object import parse_key_object

SHORTEST_TENANT_KEY = 16
"""Characters, as for the handler's setting `tenant_keys`."""


def parse_tenant_keys(secret_string: str) -> dict[str, str]:
    """Tenant → key.

    Raises:
        KeysUnreadable: what is wrong with the secret, never its value.
    """
    return parse_key_object(secret_string, called="tenant keys", shortest=SHORTEST_TENANT_KEY)
