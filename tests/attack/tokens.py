"""Session tokens, signed here with the server's key, also aged ones."""

from __future__ import annotations

import os
import secrets
import time

from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.session_token import SessionTokens

KEY_ID = "attack"
KEY_VARIABLE = "ATTACK_TOKEN_KEY"
"""Where a child process finds the key of this run."""
SECRET = os.environ.setdefault(KEY_VARIABLE, secrets.token_urlsafe(32))

_TOKEN_SECONDS = 3_600
_TOKENS = SessionTokens({KEY_ID: SECRET.encode()})


def session_token(session_id: str = "", *, age_seconds: float = 0.0) -> str:
    """A token of a session, which is new where it isn't named; issued so long ago."""
    channel = Channel("public", "demo", session_id or f"ses_{secrets.token_hex(12)}")
    token, _ = _TOKENS.issue(channel, time.time() - age_seconds, _TOKEN_SECONDS)
    return token
