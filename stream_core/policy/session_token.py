"""Session tokens and tenants' keys: who a caller is."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import jwt
from jwt.types import Options
from pydantic import BaseModel, ConfigDict, TypeAdapter

from stream_core.policy.channel import Channel
from stream_core.protocol.errors import AuthenticationFailed

_ALGORITHM = "HS256"
_ISSUER = "evenflow"
_REQUIRED = ["exp", "iat", "sub", "tenant", "agent"]


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """What a valid token says. Times are in seconds since the epoch; `user` is empty where the application named none."""

    channel: Channel
    expires_at: int
    issued_at: int
    user: str = ""


class _TokenClaims(BaseModel):
    model_config = ConfigDict(strict=True)

    tenant: str
    agent: str
    sub: str
    exp: int
    iat: int
    user: str = ""

    def to_session_claims(self) -> SessionClaims:
        return SessionClaims(Channel(self.tenant, self.agent, self.sub), self.exp, self.iat, self.user)


_CLAIMS = TypeAdapter(_TokenClaims)


class SessionTokens:
    """Issues and verifies tokens.

    Args:
        keys: key id → secret of at least 32 bytes. The first one signs, all verify: a new key goes in front, and the
            old one stays until its last token has expired, so that a rotation logs nobody out.
    """

    def __init__(self, keys: dict[str, bytes]) -> None:
        self.replace_keys(keys)

    def replace_keys(self, keys: dict[str, bytes]) -> None:
        """Use these from now on; tokens of a key that is not among them are no longer valid."""
        self._keys = keys
        self._signing_kid = next(iter(keys))

    def issue(
        self, channel: Channel, now: float, ttl_seconds: int, *, only_for: str | None = None, user: str = ""
    ) -> tuple[str, int]:
        """A token for `channel` and the second (since the epoch) at which it expires; `now` likewise.

        Args:
            user: for whom the session is, in the application's words.
            only_for: what alone it opens, instead of everything of the session.
        """
        expires_at = int(now) + ttl_seconds
        claims: dict[str, str | int] = {
            "iss": _ISSUER,
            "sub": channel.session,
            "tenant": channel.tenant,
            "agent": channel.agent,
            "iat": int(now),
            "exp": expires_at,
        }
        if user:
            claims["user"] = user
        if only_for is not None:
            claims["aud"] = only_for
        token = jwt.encode(claims, self._keys[self._signing_kid], _ALGORITHM, headers={"kid": self._signing_kid})
        return token, expires_at

    def verify(self, token: str | None, now: float, *, only_for: str | None = None) -> SessionClaims:
        """The claims of a token; `now` in seconds since the epoch.

        Args:
            only_for: a token that was issued for this alone is wanted; else only one that was issued for everything will do.

        Raises:
            AuthenticationFailed: no token, not one of ours, or expired.
        """
        if not token:
            raise AuthenticationFailed("a session token is needed: POST /session gives one", code="token_missing")
        claims = self._decode(token, only_for)
        if claims.expires_at <= now:
            raise AuthenticationFailed(
                "the session token has expired; POST /session with the same session_id gives a new one",
                code="token_expired",
            )
        return claims

    def _decode(self, token: str, only_for: str | None) -> SessionClaims:
        # The expiry is checked by the caller's clock, after the signature.
        options: Options = {"require": _REQUIRED, "verify_exp": False, "verify_iat": False}
        try:
            key = self._keys[jwt.get_unverified_header(token)["kid"]]
            # PyJWT refuses a token with an audience where none is named, and one without where one is.
            claims = jwt.decode(token, key, [_ALGORITHM], issuer=_ISSUER, audience=only_for, options=options)
            return _CLAIMS.validate_python(claims).to_session_claims()
        except (jwt.InvalidTokenError, KeyError, TypeError, ValueError) as error:
            raise AuthenticationFailed(
                "the session token is not valid; POST /session gives a new one", code="token_invalid"
            ) from error


def tenant_key_matches(given: str | None, expected: str) -> bool:
    """Compare a tenant key in constant time."""
    # Bytes of a header that are no UTF-8 arrive as lone surrogates.
    return hmac.compare_digest((given or "").encode("utf-8", "surrogateescape"), expected.encode())


class TenantKeys:
    """Tenant → key.

    Args:
        known: False where tenants have keys that this node isn't told; that it has none then means nothing.
    """

    def __init__(self, by_tenant: dict[str, str], *, known: bool = True) -> None:
        self._known = known
        self._by_tenant = by_tenant

    @property
    def by_tenant(self) -> dict[str, str]:
        """The keys."""
        return self._by_tenant

    def replace(self, by_tenant: dict[str, str]) -> None:
        """These from now on, all others are none any more."""
        self._by_tenant = by_tenant

    @property
    def open_to_all(self) -> bool:
        """Whether no tenant has a key, so that nobody needs one."""
        return self._known and not self._by_tenant

    def tenant_of(self, given: str | None) -> str | None:
        """The tenant whose key this is."""
        # Each is looked at, so that the time says nothing of which one it is.
        matching = [tenant for tenant, key in self._by_tenant.items() if tenant_key_matches(given, key)]
        return matching[0] if matching else None
