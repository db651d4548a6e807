"""The credential by which a call or a connection was let in."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Self

from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.session_token import SessionClaims


class AccessGrant(NamedTuple):
    """A verified credential: a tenant's key, a token, or none where none is needed.

    Args:
        key: the id of the tenant's key, or of the one that opened the session. Empty: none.
        session: whose token it is. None: no session's.
        expires_at: seconds since the epoch. A key has an end of its own.
    """

    tenant: str
    key: str = ""
    session: Channel | None = None
    expires_at: float = inf

    @classmethod
    def of(cls, claims: SessionClaims) -> Self:
        """A session's token, a ticket or a share."""
        channel = claims.channel
        return cls(channel.tenant, claims.key, channel, claims.expires_at)
