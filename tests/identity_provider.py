"""An identity provider for tests: keys of its own, and tokens that it signs or others forge."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from evenflow.stream_core.auth.oidc_settings import OidcSettings

AUDIENCE = "evenflow-api"
_CURVES: dict[str, ec.EllipticCurve] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}


def make_key(algorithm: str) -> PrivateKeyTypes:
    """A private key for an algorithm."""
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65_537, 2_048)


class IdentityProvider:
    """Signs tokens, and tells its public keys.

    Args:
        issuer: its name.
        algorithm: by which it signs.
    """

    def __init__(self, issuer: str, algorithm: str = "RS256") -> None:
        self.issuer, self.algorithm = issuer, algorithm
        self.private: dict[str, PrivateKeyTypes] = {}
        self.rotate()

    @property
    def key_id(self) -> str:
        """The key that signs."""
        return list(self.private)[-1]

    def rotate(self, *, keep: bool = True) -> None:
        """Sign by a new key from now on."""
        number = len(self.private)
        if not keep:
            self.private.clear()
        self.private[f"key-{number}"] = make_key(self.algorithm)

    def jwks(self, **more: object) -> bytes:
        """Its public keys. `more`: members of each."""
        listed = [
            self._public(key) | {"kid": key_id, "use": "sig", **more}
            for key_id, key in self.private.items()
        ]
        return json.dumps({"keys": listed}).encode()

    def claims(self, now: float, **given: object) -> dict[str, Any]:
        """Those of a token. None leaves one out."""
        claims = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": int(now),
            "exp": int(now) + 300,
            **given,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self,
        now: float,
        *,
        signed_by: PrivateKeyTypes | None = None,
        key_id: str | None = None,
        algorithm: str | None = None,
        **given: Any,
    ) -> str:
        """A token, with other claims where they are given."""
        return jwt.encode(
            self.claims(now, **given),
            signed_by or self.private[self.key_id],  # type: ignore[arg-type]
            algorithm or self.algorithm,
            headers={"kid": key_id or self.key_id},
        )

    def unsigned(self, now: float) -> str:
        """A token of the algorithm `none`."""
        return _joined({"alg": "none", "kid": self.key_id}, self.claims(now), b"")

    def signed_with_public_key(self, now: float) -> str:
        """A token by HS256 whose secret is the public key, which everybody knows."""
        public = self.private[self.key_id].public_key()
        secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        header = {"alg": "HS256", "kid": self.key_id}
        signed = _joined(header, self.claims(now), b"").rstrip(".")
        digest = hmac.digest(secret, signed.encode(), hashlib.sha256)
        return f"{signed}.{_encoded(digest)}"

    def settings(self, **given: Any) -> OidcSettings:
        """The settings of who believes it."""
        return OidcSettings(**{"issuer": self.issuer, "audience": AUDIENCE, **given})

    def _public(self, key: PrivateKeyTypes) -> dict[str, Any]:
        public: Any = key.public_key()
        of: Any = OKPAlgorithm
        if self.algorithm != "EdDSA":
            of = ECAlgorithm if self.algorithm in _CURVES else RSAAlgorithm
        told: dict[str, Any] = of.to_jwk(public, as_dict=True)
        return told


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _joined(header: dict[str, Any], claims: dict[str, Any], signature: bytes) -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(map(_encoded, parts))
