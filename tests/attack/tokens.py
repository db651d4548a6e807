"""Session tokens, signed here with the server's key, also aged ones; and tenants' keys."""

from __future__ import annotations

import json
import os
import secrets
import time

from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.tenants.registry import CONFIGURED_KEY

KEY_ID = "attack"
KEY_VARIABLE = "ATTACK_TOKEN_KEY"
"""Where a child process finds the key of this run."""
SECRET = os.environ.setdefault(KEY_VARIABLE, secrets.token_urlsafe(32))
HONEST, HOSTILE = "honest", "hostile"
"""Two tenants."""
TENANT_KEYS = {tenant: f"{tenant}-{SECRET}" for tenant in (HONEST, HOSTILE)}
KEYED = {"EVENFLOW_TENANT_KEYS": json.dumps(TENANT_KEYS)}
"""The settings of a server where each of them has a key. Honest readers use that of `HONEST`."""

_TOKEN_SECONDS = 3_600
_TOKENS = SessionTokens({KEY_ID: SECRET.encode()})


def session_token(session_id: str = "", *, age_seconds: float = 0.0, tenant: str = "") -> str:
    """A token of a session, by default of a new one, issued `age_seconds` ago.

    Args:
        tenant: the tenant whose key opened the session. Empty: none.
    """
    channel = Channel(tenant or "public", "demo", session_id or f"ses_{secrets.token_hex(12)}")
    key = CONFIGURED_KEY if tenant else ""
    token, _ = _TOKENS.issue(channel, time.time() - age_seconds, _TOKEN_SECONDS, key=key)
    return token
