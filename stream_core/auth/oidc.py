"""Verifies tokens of one's own identity provider (OpenID Connect).

The caller fetches the keys: `is_due` returns when.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import jwt
from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter

from evenflow.stream_core.auth.oidc_keys import ALGORITHMS, IssuerKeys
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.auth.session_token import ISSUER as OWN_ISSUER
from evenflow.stream_core.base.agents import LONGEST_USER
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.base.errors import AuthenticationFailed, NotPermitted, Overloaded

_JWS = jwt.PyJWS(ALGORITHMS, {"enforce_minimum_key_length": True})
_NOT_VERIFIED = jwt.PyJWS(options={"verify_signature": False})
# Cognito's access tokens have their client in the place of an audience.
_ACCESS = "access"


class Identity(NamedTuple):
    """The tenant and user of a verified token, and its expiry in seconds since the epoch."""

    tenant: str
    user: str
    expires_at: float


class _Claims(BaseModel):
    """The claims that are looked at. Of the others two may name the tenant and the user."""

    model_config = ConfigDict(strict=True, extra="allow")

    iss: str
    exp: FiniteFloat | None = None
    nbf: FiniteFloat = 0.0
    aud: str | list[str] | None = None
    client_id: str | None = None
    token_use: str | None = None


_CLAIMS = TypeAdapter(_Claims)


class _IdentityToken(NamedTuple):
    """The content of a token before its verification."""

    text: str
    algorithm: object
    key_id: str | None
    claims: _Claims


class IdentityTokens:
    """Verifies the tokens of one issuer."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self.keys = IssuerKeys()

    def is_due(self, text: str | None, now: float) -> bool:
        """Whether to fetch the keys before this is verified. `now` is in seconds since the epoch.

        Only a token that may be this issuer's causes a fetch. A wrong signature does, too: its key
        may have been replaced by another with the same id, or without one.
        """
        token = _read(text)
        if token is None or not self._may_be_ours(token):
            return False
        keys = self.keys
        return keys.is_due(token.key_id, now) or (keys.may_ask(now) and not self._is_signed(token))

    def has_key_of(self, text: str | None) -> bool:
        """Whether a token can be verified without a fetch: by a cached key, or it needs none."""
        token = _read(text)
        return token is None or not self._may_be_ours(token) or self._is_signed(token)

    def verify(self, text: str | None, now: float) -> Identity | None:
        """The identity of a token's bearer. None: this is no token of an identity provider.

        Args:
            now: seconds since the epoch.

        Raises:
            AuthenticationFailed: the token is not valid. The code is the reason.
            NotPermitted: it is valid, and its claims name no tenant or no user.
            Overloaded: no key to verify it is available for now.
        """
        token = _read(text)
        if token is None:
            return None
        self._check_issuer(token)
        self._check_signature(token, now)
        expires_at = self._check_validity(token.claims, now)
        return self._identity(token.claims, expires_at)

    def _may_be_ours(self, token: _IdentityToken) -> bool:
        return token.claims.iss == self.settings.issuer and token.algorithm in ALGORITHMS

    def _is_signed(self, token: _IdentityToken) -> bool:
        algorithm = str(token.algorithm)
        candidates = self.keys.find(token.key_id, algorithm)
        return any(_is_signed(token.text, key, algorithm) for key in candidates)

    def _check_issuer(self, token: _IdentityToken) -> None:
        if token.claims.iss != self.settings.issuer:
            raise _token_invalid("identity_token_issuer", "is of an issuer that is not known here")
        if token.algorithm not in ALGORITHMS:
            raise _token_invalid(
                "identity_token_algorithm",
                f"is signed by an algorithm that is not taken; those are {', '.join(ALGORITHMS)}",
            )

    def _check_signature(self, token: _IdentityToken, now: float) -> None:
        if self._is_signed(token):
            return
        if self.keys.unsure:
            raise Overloaded(
                "the keys of the identity provider can't be had at the moment; nothing was "
                "done, try again in some seconds",
                code="identity_keys_unavailable",
                retry_after_ms=self.keys.retry_after_ms(now),
            )
        if not self.keys.knows(token.key_id):
            raise _token_invalid("identity_key_unknown", "names a key that its issuer doesn't have")
        raise _token_invalid("identity_token_invalid", "is not signed by its issuer")

    def _check_validity(self, claims: _Claims, now: float) -> float:
        """Check the audience and the times. Returns when the token expires."""
        settings = self.settings
        if settings.audience not in _audiences(claims):
            raise _token_invalid("identity_token_audience", "is for another audience")
        if claims.exp is None:
            raise _token_invalid("identity_token_invalid", "never expires")
        expires_at = claims.exp + settings.skew_seconds
        if expires_at <= now:
            raise _token_invalid("identity_token_expired", "has expired")
        if claims.nbf - settings.skew_seconds > now:
            raise _token_invalid("identity_token_early", "is not valid yet")
        return expires_at

    def _identity(self, claims: _Claims, expires_at: float) -> Identity:
        values, settings = claims.model_dump(), self.settings
        tenant = values.get(settings.tenant_claim) if settings.tenant_claim else settings.tenant
        user = values.get(settings.user_claim)
        if not (isinstance(tenant, str) and re.fullmatch(NAME_PATTERN, tenant)) or "\n" in tenant:
            raise _unnamed(settings.tenant_claim, "1 to 64 letters, digits, `_`, `.` or `-`")
        if not (isinstance(user, str) and 0 < len(user) <= LONGEST_USER):
            raise _unnamed(settings.user_claim, f"a text of 1 to {LONGEST_USER} characters")
        return Identity(tenant, user, expires_at)


@lru_cache(maxsize=64)  # a call looks at its token up to three times
def _read(text: str | None) -> _IdentityToken | None:
    """Parse a text as a token. None: it is none, or one of our own."""
    if not text or text.count(".") != 2:
        return None
    try:
        decoded: dict[str, Any] = _NOT_VERIFIED.decode_complete(text)
        claims = _CLAIMS.validate_json(decoded["payload"])
    except (jwt.PyJWTError, ValueError):
        return None
    if claims.iss == OWN_ISSUER:
        return None
    header = decoded["header"]
    return _IdentityToken(text, header.get("alg"), header.get("kid"), claims)


@lru_cache(maxsize=64)  # likewise
def _is_signed(text: str, key: jwt.PyJWK, algorithm: str) -> bool:
    try:
        _JWS.decode(text, key, [algorithm])
    except (jwt.PyJWTError, ValueError):
        return False
    return True


def _audiences(claims: _Claims) -> list[str]:
    if claims.aud is not None:
        return [claims.aud] if isinstance(claims.aud, str) else claims.aud
    is_access = claims.token_use == _ACCESS and claims.client_id is not None
    return [str(claims.client_id)] if is_access else []


def _token_invalid(code: str, what: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token of the identity provider {what}; nothing was done, ask it for a new one",
        code=code,
    )


def _unnamed(claim: str, accepts: str) -> NotPermitted:
    return NotPermitted(
        f"the token is valid, but its claim {claim!r} must be {accepts}; nothing was done",
        code="identity_claim_invalid",
    )
