"""`POST /session` without its transport: the handler and the Lambda function answer alike."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evenflow.stream_core.auth.oidc import Identity, IdentityTokens
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.base.channel import LONGEST_NAME, Channel
from evenflow.stream_core.base.errors import AuthenticationFailed, NotPermitted, RateLimited
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.protocols.evenflow.http_bodies import SessionOpened
from evenflow.stream_core.protocols.evenflow.messages import SessionRequest
from evenflow.stream_core.tenants.access import check_origin, check_scope
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import Scope

OPEN_TENANT = "public"
"""The tenant of requests that name none."""
# Of SHA-256, in hexadecimal digits. Both together fit into a name.
_USER_DIGITS, _NAME_DIGITS = 20, 40


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
    credential: str | None,
    *,
    agents: Agents,
    tenants: Tenants,
    tokens: SessionTokens,
    now: float,
    ttl: int,
    check_without_key: Callable[[], None],
    identities: IdentityTokens | None = None,
    origin: str | None = None,
) -> OpenedSession:
    """Issue a token for a new session, or for the one that the request names.

    Args:
        credential: of the `Authorization` header: a tenant's key, or a token of the identity
            provider. A request without a tenant is for that of the key.
        tenants: the registry. Once a tenant had a key, sessions need one, except those of open
            tenants.
        now: seconds since the epoch.
        ttl: the validity of the token in seconds.
        check_without_key: called for a request without a valid key or token. It may reject it.
        identities: verifies tokens of the identity provider. None: there is none.
        origin: of the requesting page. None: it is the server's own page, or there is no page.

    Raises:
        AuthenticationFailed: the tenant's key or the token is missing or wrong.
        NotPermitted: the key lacks the scope, the token is another tenant's or user's, or its
            tenant is not served here.
        OriginNotAllowed: the tenant does not allow the page's origin.
        NotFound: the agent does not exist, or the tenant may not use it.
        Overloaded: there is no key of the identity provider, for now.
    """
    opener = _opener(request, credential, tenants, identities, now, check_without_key)
    tenants.check_served(opener.tenant)
    tenant = tenants.of(opener.tenant)
    check_origin(tenant, origin)
    agent = agents.chosen(request.agent, tenant.agents)
    session_id = request.session_id or f"ses_{secrets.token_hex(16)}"
    if opener.identified:
        session_id = _of_user(opener.user, session_id)
    channel = Channel(tenant.id, agent, session_id)
    may = frozenset(request.may or Right)
    token, expires_at = tokens.issue(channel, now, ttl, user=opener.user, key=opener.key, may=may)
    return OpenedSession(
        session_id, token, iso_time(expires_at), channel, agents.find(channel.agent).suggestions
    )


class _Opener(NamedTuple):
    """The caller that opens a session. `identified`: by the identity provider."""

    tenant: str
    user: str
    key: str = ""
    identified: bool = False


def _opener(
    request: SessionRequest,
    credential: str | None,
    tenants: Tenants,
    identities: IdentityTokens | None,
    now: float,
    check_without_key: Callable[[], None],
) -> _Opener:
    known = tenants.with_key(credential, now)
    if known is not None and (known.tenant.id == request.tenant or not request.names_tenant):
        check_scope(known.key, Scope.SESSIONS)
        return _Opener(known.tenant.id, request.user or "", known.key.id)
    try:
        identity = None if identities is None else identities.verify(credential, now)
    except AuthenticationFailed:
        check_without_key()
        raise
    if identity is not None:
        _check_claimed(request, identity)
        return _Opener(identity.tenant, identity.user, identified=True)
    check_without_key()
    may_be_open = tenants.is_undecided and request.tenant == OPEN_TENANT
    if not (tenants.is_open(request.tenant) or may_be_open):
        other = "" if identities is None else ", or a token of its identity provider"
        raise AuthenticationFailed(
            f"tenant {request.tenant!r} needs its key as `Authorization: Bearer <key>`{other}; no "
            "session was opened",
            code="tenant_key_invalid",
        )
    return _Opener(request.tenant, request.user or "")


def _check_claimed(request: SessionRequest, identity: Identity) -> None:
    """Check that a body claims nothing else than the token says."""
    for name, claimed in (("tenant", identity.tenant), ("user", identity.user)):
        if name in request.model_fields_set and getattr(request, name) not in (None, claimed):
            raise NotPermitted(
                f"the token is of {name} {claimed!r}; no session was opened, leave `{name}` out",
                code="identity_mismatch",
                param=name,
            )


def _of_user(user: str, session_id: str) -> str:
    """A session's id for a user of the identity provider: only that user's tokens open it.

    The id of one that the user has opened stays as it is.
    """
    own = f"u_{hashlib.sha256(user.encode()).hexdigest()[:_USER_DIGITS]}_"
    if session_id.startswith(own):
        return session_id
    if len(own) + len(session_id) > LONGEST_NAME:
        session_id = hashlib.sha256(session_id.encode()).hexdigest()[:_NAME_DIGITS]
    return own + session_id


def check_address(rates: AddressRates, address: str, now: float, *, is_proxy: bool = False) -> None:
    """Check that an address may open one more session without a key.

    Args:
        now: seconds of a clock that never goes back.
        is_proxy: whether the address looks like that of an untrusted proxy.

    Raises:
        RateLimited: it has opened too many. The error says when to try again.
    """
    seconds = rates.take(address, now)
    if seconds:
        shared = (
            "; all clients of a proxy share this address, since EVENFLOW_TRUSTED_PROXIES does not "
            "name the proxy"
        )
        raise RateLimited(
            "too many sessions were opened from this address; none was opened now, try again "
            f"later, or open them with a tenant's key{shared if is_proxy else ''}",
            code="address_sessions",
            retry_after_ms=math.ceil(seconds * 1000),
        )


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def seconds_of(iso: str) -> float:
    """Seconds since the epoch of a time that `iso_time` has written.

    Raises:
        ValueError: it is no such time.
    """
    return datetime.fromisoformat(iso).timestamp()


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer …` header. None for any other value."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
