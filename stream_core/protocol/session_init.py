"""`POST /session` without its transport: the handler and the Lambda function answer alike."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stream_core.policy.address_rates import AddressRates
from stream_core.policy.agents import Agents
from stream_core.policy.channel import Channel
from stream_core.policy.rights import Right
from stream_core.policy.session_token import SessionTokens
from stream_core.protocol.errors import AuthenticationFailed, RateLimited
from stream_core.protocol.http_bodies import SessionOpened
from stream_core.protocol.messages import SessionRequest
from stream_core.tenants.registry import Tenants

OPEN_TENANT = "public"
"""The tenant of callers who name none."""


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session with its token. `expires_at` is ISO 8601, UTC."""

    session_id: str
    token: str
    expires_at: str
    channel: Channel
    suggestions: list[str]

    def to_body(self, *, ws_url: str, http_url: str) -> dict[str, Any]:
        """The body of the HTTP answer, with the addresses for further calls."""
        return SessionOpened(
            session_id=self.session_id,
            token=self.token,
            expires_at=self.expires_at,
            ws_url=ws_url,
            http_url=http_url,
            agent=self.channel.agent,
            suggestions=self.suggestions,
        ).model_dump()


def open_session(
    request: SessionRequest,
    given_key: str | None,
    *,
    agents: Agents,
    tenants: Tenants,
    tokens: SessionTokens,
    now: float,
    ttl: int,
    check_without_key: Callable[[], None],
) -> OpenedSession:
    """Issue a token for a new session, or for the one that the request names.

    Args:
        given_key: the tenant key of the `Authorization` header.
        tenants: those in force. If any has a key, tenants without one are refused, except
            `public`.
        now: seconds since the epoch.
        ttl: how many seconds the token is valid.
        check_without_key: called for who gives no tenant's key, or a wrong one. It may refuse.

    Raises:
        AuthenticationFailed: the tenant's key is missing or wrong.
        NotFound: there is no such agent.
    """
    needs_key = tenants.has_key(request.tenant)
    unknown = not (needs_key or tenants.open_to_all) and request.tenant != OPEN_TENANT
    known = tenants.with_key(given_key, now)
    has_key = known is not None and known.tenant.id == request.tenant
    if not has_key:
        check_without_key()
    if unknown or (needs_key and not has_key):
        raise AuthenticationFailed(
            f"tenant {request.tenant!r} needs its key as `Authorization: Bearer <key>`; no "
            "session was opened",
            code="tenant_key_invalid",
        )
    session_id = request.session_id or f"ses_{secrets.token_hex(16)}"
    channel = Channel(request.tenant, agents.chosen(request.agent), session_id)
    token, expires_at = tokens.issue(
        channel,
        now,
        ttl,
        user=request.user or "",
        key=known.key.id if has_key and known is not None else "",
        may=frozenset(request.may or Right),
    )
    return OpenedSession(
        session_id, token, iso_time(expires_at), channel, agents.find(channel.agent).suggestions
    )


def check_address(rates: AddressRates, address: str, now: float) -> None:
    """Check that an address may open one more session without a key.

    Args:
        now: seconds of a clock that never goes back.

    Raises:
        RateLimited: it has opened too many. The error says when to try again.
    """
    seconds = rates.take(address, now)
    if seconds:
        raise RateLimited(
            "too many sessions were opened from this address; none was opened now, try again "
            "later, or open them with a tenant's key",
            code="address_sessions",
            retry_after_ms=math.ceil(seconds * 1000),
        )


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer …` header. None for any other value."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
