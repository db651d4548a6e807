"""The verified credential of a call or a connection."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Self

from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel


class AccessGrant(NamedTuple):
    """A verified credential: a key, a token, or none where none is needed.

    Args:
        key: the id of the tenant's key, or of the key that opened the session. Empty: none.
        session: the session of its token. None: it is not a session's token.
        expires_at: seconds since the epoch. The expiry of a key is in the tenant's record.
    """

    tenant: str
    key: str = ""
    session: Channel | None = None
    expires_at: float = inf

    @classmethod
    def of(cls, claims: SessionClaims) -> Self:
        """The grant of a session's token, a ticket or a share."""
        channel = claims.channel
        return cls(channel.tenant, claims.key, channel, claims.expires_at)
