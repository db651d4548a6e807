"""The secret with the tenants' keys: `{"<tenant>": "<key>", …}`; `{}` leaves every tenant open."""

from __future__ import annotations

import re

from stream_aws.key_object import KeysUnreadable, parse_key_object
from stream_core.channel import NAME_PATTERN

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
