"""The keys of an identity provider, and when they are to be fetched again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jwt

from evenflow.stream_core.auth.oidc_settings import OidcSettings, checked_url

LARGEST_DOCUMENT = 262_144
"""The most bytes of what an issuer answers."""
FETCH_SECONDS = 3.0
"""The timeout of a request for an issuer's document."""
FRESH_SECONDS = 3_600.0
"""The maximum age of keys while their issuer can be reached."""
# The minimum seconds between requests for unknown keys, also if many tokens are forged.
_PAUSE_SECONDS = 30.0
# Callers are refused while there are no keys at all.
_FIRST_PAUSE_SECONDS = 2.0
_MOST_KEYS = 100
# Of a token that doesn't say which key signed it. Each costs a verification.
_MOST_TRIED = 8

# By algorithm: the type of its keys, and their curves.
_KEYS_OF: dict[str, tuple[str, tuple[str | None, ...]]] = {
    **{f"{family}{bits}": ("RSA", (None,)) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
ALGORITHMS = tuple(_KEYS_OF)
"""Those by which an issuer may sign: never `none`, and none with a secret that both sides have."""


class DocumentUnreadable(ValueError):
    """An issuer's answer is not valid. The message has the reason."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One public key. `id` is None if the issuer names none."""

    id: str | None
    by_algorithm: dict[str, jwt.PyJWK]


def keys_url_in(document: bytes, settings: OidcSettings) -> str:
    """The address of the keys, in the issuer's discovery document.

    Raises:
        DocumentUnreadable: it is another issuer's, or has no safe address.
    """
    document_object = _object_in(document)
    if document_object.get("issuer") != settings.issuer:
        raise DocumentUnreadable(
            f"the issuer calls itself {str(document_object.get('issuer'))[:200]!r}, "
            f"not {settings.issuer!r}"
        )
    try:
        return checked_url(str(document_object.get("jwks_uri")))
    except ValueError as error:
        raise DocumentUnreadable(f"jwks_uri {error}") from None


def parse_keys(document: bytes) -> tuple[IssuerKey, ...]:
    """The keys in a JWKS that can verify signatures. All others are passed over.

    Raises:
        DocumentUnreadable: it is no JWKS, or has no such key.
    """
    listed = _object_in(document).get("keys")
    if not isinstance(listed, list):
        raise DocumentUnreadable("this is no JWKS: it has no list `keys`")
    keys = tuple(filter(None, map(_key_in, listed[:_MOST_KEYS])))
    if not keys:
        raise DocumentUnreadable("the JWKS has no public key by which tokens could be signed")
    return keys


class IssuerKeys:
    """The current keys. Times are seconds since the epoch: other clocks may stop while a
    function is frozen.

    If the issuer can't be reached, the cached keys stay in force.
    """

    def __init__(self) -> None:
        self._keys: tuple[IssuerKey, ...] = ()
        self._refresh_at = 0.0
        self._unknown_at = 0.0
        self._unsure = False

    @property
    def unsure(self) -> bool:
        """Whether an unknown key may exist: a request to the issuer is running, or fails."""
        return self._unsure or not self._keys

    def find(self, key_id: str | None, algorithm: str) -> list[jwt.PyJWK]:
        """The keys that may have signed a token. One without a key id may be signed by any."""
        keys = [
            key.by_algorithm[algorithm]
            for key in self._keys
            if key_id in (None, key.id) and algorithm in key.by_algorithm
        ]
        return keys[:_MOST_TRIED]

    def knows(self, key_id: str | None) -> bool:
        """Whether there is a key of this id."""
        return any(key_id in (None, key.id) for key in self._keys)

    def is_due(self, key_id: str | None, now: float) -> bool:
        """Whether to ask the issuer, before a token with this key id is looked at."""
        is_new = not self.knows(key_id)
        return now >= self._refresh_at or (is_new and self.may_ask(now))

    def may_ask(self, now: float) -> bool:
        """Whether a request for keys newer than the cached ones is allowed now."""
        return bool(self._keys) and now >= self._unknown_at

    def begin(self, now: float) -> None:
        """Record that a request begins. Without an answer it is repeated after a pause."""
        self._unsure = True
        if now < self._refresh_at:  # so no cached key has signed a token
            self._unknown_at = now + _PAUSE_SECONDS
        else:
            self._refresh_at = now + (_PAUSE_SECONDS if self._keys else _FIRST_PAUSE_SECONDS)

    def replace(self, keys: tuple[IssuerKey, ...], now: float) -> None:
        """The issuer has answered."""
        self._keys, self._unsure = keys, False
        self._refresh_at = now + FRESH_SECONDS

    def retry_after_ms(self, now: float) -> int:
        """When a key that isn't here may be, in milliseconds."""
        pause = (self._unknown_at if self._keys else self._refresh_at) - now
        return int(min(_PAUSE_SECONDS, max(1.0, pause)) * 1000)


def _key_in(listed: object) -> IssuerKey | None:
    if not isinstance(listed, dict) or listed.get("use", "sig") != "sig":
        return None
    key_id, own_algorithm = listed.get("kid"), listed.get("alg")
    by_algorithm = {}
    for algorithm, (key_type, curves) in _KEYS_OF.items():
        suits = listed.get("kty") == key_type and listed.get("crv") in curves
        if suits and own_algorithm in (None, algorithm):
            try:
                by_algorithm[algorithm] = jwt.PyJWK(listed, algorithm)
            except (jwt.PyJWTError, TypeError, ValueError):
                return None
    known_id = key_id if isinstance(key_id, str) else None
    return IssuerKey(known_id, by_algorithm) if by_algorithm else None


def _object_in(document: bytes) -> dict[str, Any]:
    try:
        document_object = json.loads(document)
    except (ValueError, RecursionError):
        document_object = None
    if not isinstance(document_object, dict):
        raise DocumentUnreadable("the issuer's answer is no JSON object")
    return document_object
