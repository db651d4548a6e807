"""Checks credentials: whether they are still valid, and what their tenants may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Self

from evenflow.fargate_handler.gateway.connections.identity_keys import IdentityKeys
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.orchestrator.ended_sessions import EndedSessions
from evenflow.stream_core.auth.session_token import SessionClaims, SessionTokens, token_expired
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT
from evenflow.stream_core.tenants.access import check_origin, usable_models
from evenflow.stream_core.tenants.registry import Tenants


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


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Verifies credentials by the tenants' keys, session tokens and identities.

    Args:
        wall_time: seconds since the epoch.
        models: the names that clients may ask for.
        identities: verifies the tokens of an identity provider. None: there is none.
    """

    tokens: SessionTokens
    tenants: Tenants
    ended_sessions: EndedSessions
    site: Site
    wall_time: Callable[[], float]
    models: tuple[str, ...]
    identities: IdentityKeys | None = None

    def check_grant(self, grant: AccessGrant) -> None:
        """Check that a credential is still valid, as far as this node knows.

        Raises:
            AuthenticationFailed: it has expired, or its key is no longer valid.
            NotPermitted: its tenant was removed.
            Gone: its session was ended.
        """
        if self.wall_time() >= grant.expires_at:
            raise token_expired()
        self.tenants.check_valid(grant.tenant, grant.key)
        if grant.session is not None:
            self.ended_sessions.check(grant.session)

    def check_origin(self, tenant_id: str, origin: str | None, host: str) -> None:
        """Check the page that uses a tenant's key or token.

        Args:
            origin, host: the headers `Origin` and `Host`.

        Raises:
            OriginNotAllowed: it is neither of this server nor of the tenant's origins.
        """
        if origin is not None and not self.site.is_own_page(origin, host):
            check_origin(self.tenants.of(tenant_id), origin)

    def counted_tenant(self, tenant_id: str) -> str:
        """The tenant that calls are counted for.

        Where no tenant has a key, clients can make up names of tenants. So all are counted as one.
        """
        return OPEN_TENANT if self.tenants.open_to_all else tenant_id

    def sender(self, tenant_id: str, address: str) -> tuple[str, str]:
        """The tenant and the address that messages and connections are counted for."""
        return self.counted_tenant(tenant_id), address

    def models_of(self, tenant_id: str) -> tuple[str, ...]:
        """The models that a tenant's requests may name."""
        return usable_models(self.tenants.of(tenant_id), self.models)
