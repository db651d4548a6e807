"""Signs and verifies session tokens, and compares tenants' keys."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import jwt
from jwt.algorithms import HMACAlgorithm
from pydantic import BaseModel, ConfigDict, TypeAdapter

from evenflow.stream_core.auth.rights import ALL_RIGHTS, TO_READ, Right, check_right
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import AuthenticationFailed

_ALGORITHM = "HS256"
ISSUER = "evenflow"
"""The issuer of session tokens, in their claim `iss`."""
_FOR_PEERS = "peer:"
# Verified tokens that are remembered: about 8 MB. A client sends its token with each call.
_MOST_REMEMBERED, _LONGEST_REMEMBERED = 8_192, 2_048
OF_NODE = "#task"
"""The `key` of a token by which another node stops a response, or brings a tool's result for it.

No key of a tenant has such an id. A node signs it for itself, as in `for_peers`.
"""


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """The content of a valid token. Times are seconds since the epoch. `user` may be empty.

    `only_for`: the one response that the token opens, to be read. None: the whole session.
    `key`: the id of the tenant's key with which the session was opened. Empty: none.
    `may`: what the token may do.
    `shared`: whether it is a share token. Its `user` is the reader that the sharer has named.
    `names`: whether the sharer lets it see the names of other readers.
    """

    channel: Channel
    expires_at: int
    issued_at: int
    user: str = ""
    only_for: str | None = None
    key: str = ""
    may: frozenset[Right] = ALL_RIGHTS
    shared: bool = False
    names: bool = False

    @property
    def known_user(self) -> str:
        """The user that the tenant has named. Empty for a share: its sharer may name any reader."""
        return "" if self.shared else self.user

    @property
    def of_task(self) -> bool:
        """Whether another node has signed it for itself."""
        return self.key == OF_NODE or (self.only_for or "").startswith(_FOR_PEERS)

    @property
    def sees_names(self) -> bool:
        """Whether it shows the names of readers. A share or a ticket only does so by a claim."""
        return self.names or not (self.shared or self.only_for is not None)

    @property
    def watches(self) -> bool:
        """Whether it is a token to watch a whole session: it may read it, and not write."""
        return self.only_for is None and Right.WRITE not in self.may


class _TokenClaims(BaseModel):
    model_config = ConfigDict(strict=True)

    iss: Literal["evenflow"]
    tenant: str
    agent: str
    sub: str
    exp: int
    iat: int
    nbf: int = 0
    user: str = ""
    aud: str | None = None
    key: str = ""
    may: list[str] | None = None
    shared: bool = False
    names: bool = False

    def to_session_claims(self) -> SessionClaims:
        return SessionClaims(
            Channel(self.tenant, self.agent, self.sub),
            self.exp,
            self.iat,
            self.user,
            self.aud,
            self.key,
            self._rights,
            self.shared,
            self.names,
        )

    @property
    def _rights(self) -> frozenset[Right]:
        # A ticket allows reading. Rights of a newer version only are ignored here.
        granted = ALL_RIGHTS if self.aud is None else TO_READ
        return granted if self.may is None else frozenset(r for r in granted if r in self.may)


_CLAIMS = TypeAdapter(_TokenClaims)


class _KnownKeys(HMACAlgorithm):
    """HS256 that checks its few keys once, and not with each token."""

    prepare_key = lru_cache(maxsize=16)(HMACAlgorithm.prepare_key)


_JWS = jwt.PyJWS()
_JWS.unregister_algorithm(_ALGORITHM)
_JWS.register_algorithm(_ALGORITHM, _KnownKeys(HMACAlgorithm.SHA256))


@lru_cache(maxsize=64)
def _key_id(header: str) -> str:
    """The `kid` of an encoded header. All tokens of one key have the same header."""
    key_id: str = jwt.get_unverified_header(f"{header}..")["kid"]
    return key_id


def for_peers(response_id: str) -> str:
    """The `only_for` of a token with which another node copies a response.

    No client gets one. A node signs it for itself, with the keys that all nodes share.
    """
    return f"{_FOR_PEERS}{response_id}"


class SessionTokens:
    """Issues and verifies session tokens.

    Args:
        keys: secrets of at least 32 bytes, by key id. The first signs, all verify. To rotate
            without logging users out, put a new key first, and keep the old one until its last
            token has expired.
    """

    def __init__(self, keys: dict[str, bytes]) -> None:
        self.replace_keys(keys)

    def replace_keys(self, keys: dict[str, bytes]) -> None:
        """Replace the keys. Tokens signed with a key that is gone are no longer valid."""
        self._keys = keys
        self._signing_kid = next(iter(keys))
        # A new one: what the earlier keys have signed may no longer be valid.
        self._read = lru_cache(maxsize=_MOST_REMEMBERED)(self._read_signed)

    def issue(
        self,
        channel: Channel,
        now: float,
        ttl_seconds: int,
        *,
        only_for: str | None = None,
        user: str = "",
        key: str = "",
        may: frozenset[Right] = ALL_RIGHTS,
        shared: bool = False,
        names: bool = False,
    ) -> tuple[str, int]:
        """Issue a token.

        Args:
            now: seconds since the epoch.
            only_for: the one thing that the token opens, instead of the whole session.
            user: the user of the session, as the application names them.
            key: the id of the tenant's key that opens it.
            may: what the token may do. One for one thing may only read, in any case.
            shared: whether the `user` is a reader that the sharer has named.
            names: whether a share or a ticket sees the names of other readers.

        Returns:
            The token, and when it expires, in seconds since the epoch.
        """
        expires_at = int(now) + ttl_seconds
        claims: dict[str, str | int | bool | list[str]] = {
            "iss": ISSUER,
            "sub": channel.session,
            "tenant": channel.tenant,
            "agent": channel.agent,
            "iat": int(now),
            "exp": expires_at,
        }
        if user:
            claims["user"] = user
        if key:
            claims["key"] = key
        if shared:
            claims["shared"] = True
        if names:
            claims["names"] = True
        if only_for is not None:
            claims["aud"] = only_for
        elif may != ALL_RIGHTS:
            claims["may"] = sorted(may)
        token = jwt.encode(
            claims, self._keys[self._signing_kid], _ALGORITHM, headers={"kid": self._signing_kid}
        )
        return token, expires_at

    def verify(
        self, token: str | None, now: float, *, only_for: str | None = None
    ) -> SessionClaims:
        """Verify a token. `now` is in seconds since the epoch.

        Args:
            only_for: accept only tokens issued for this. None: only tokens for the whole session.

        Raises:
            AuthenticationFailed: there is no token, or it is not valid or has expired.
        """
        return self._verified(token, now, only_for, tickets=False)

    def verify_any(self, token: str | None, now: float) -> SessionClaims:
        """Verify a client's token, the session's or a ticket. The caller looks at what it opens.

        Raises:
            AuthenticationFailed: as for `verify`.
        """
        return self._verified(token, now, None, tickets=True)

    def verify_for(
        self, right: Right, token: str | None, now: float, response_id: str | None = None
    ) -> SessionClaims:
        """Verify a client's token, and that it may do something with a response or its session.

        Args:
            response_id: the response, which a ticket may be for. None: the whole session.

        Raises:
            AuthenticationFailed: as for `verify`, or it is a ticket for another response.
            NotPermitted: the token lacks the right.
        """
        claims = self.verify_any(token, now)
        check_right(right, claims.may)
        if claims.only_for not in (None, response_id):
            raise _invalid()
        return claims

    def _verified(
        self, token: str | None, now: float, only_for: str | None, *, tickets: bool
    ) -> SessionClaims:
        if not token:
            raise AuthenticationFailed(
                "a session token is needed: POST /session gives one", code="token_missing"
            )
        claims = self._decode(token, now, only_for, tickets=tickets)
        if claims.expires_at <= now:
            raise token_expired()
        return claims

    def _decode(
        self, token: str, now: float, only_for: str | None, *, tickets: bool
    ) -> SessionClaims:
        # The caller compares the expiry, which has an error of its own.
        try:
            read = self._read if len(token) <= _LONGEST_REMEMBERED else self._read_signed
            claims, not_before = read(token)
        except (jwt.InvalidTokenError, KeyError, TypeError, ValueError) as error:
            raise _invalid() from error
        is_ticket = tickets and not (claims.only_for or "").startswith(_FOR_PEERS)
        if claims.only_for != only_for and not is_ticket:
            raise _invalid()
        if not_before > now:
            raise _invalid()
        return claims

    def _read_signed(self, token: str) -> tuple[SessionClaims, int]:
        """The content of a token whose signature is right, and the time before which it is invalid.

        Raises:
            ValueError, KeyError, jwt.InvalidTokenError: it isn't such a token. Only valid ones are
                remembered.
        """
        key = self._keys[_key_id(token.partition(".")[0])]
        claims = _CLAIMS.validate_json(_JWS.decode(token, key, [_ALGORITHM]))
        return claims.to_session_claims(), claims.nbf


def token_expired() -> AuthenticationFailed:
    """The refusal of a token that was valid."""
    return AuthenticationFailed(
        "the session token has expired; POST /session with the same session_id gives a new one",
        code="token_expired",
    )


def _invalid() -> AuthenticationFailed:
    return AuthenticationFailed(
        "the session token is not valid; POST /session gives a new one", code="token_invalid"
    )


def key_matches(credential: str | None, expected: str) -> bool:
    """Compare a key in constant time."""
    # Header bytes that are not UTF-8 arrive as lone surrogates.
    return hmac.compare_digest(
        (credential or "").encode("utf-8", "surrogateescape"), expected.encode()
    )
