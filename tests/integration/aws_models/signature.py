"""Whether a request bears a signature (SigV4) of the one who may call."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)"
    r"/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Credentials:
    """Who may call."""

    access_key: str = "AKIDOFTHETESTS"
    secret_key: str = "the secret key of the tests"

    def environment(self, url: str) -> dict[str, str]:
        """Variables that point any SDK at the model server on `url`."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": url,
        }


def refusal_of(
    credentials: Credentials,
    service: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
) -> tuple[str, str] | None:
    """The name and the message of AWS' refusal, None when the signature is right.

    Args:
        path: as it was requested, still percent-encoded.
    """
    found = _AUTHORIZATION.fullmatch(headers.get("Authorization", ""))
    if found is None:
        return "MissingAuthenticationTokenException", "Missing Authentication Token"
    if found["key"] != credentials.access_key:
        return (
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        )
    if found["service"] != service:
        return (
            "InvalidSignatureException",
            f"Credential should be scoped to correct service: '{service}'.",
        )
    if not hmac.compare_digest(
        found["signature"], _signature(credentials, found, method, path, headers, body)
    ):
        return "InvalidSignatureException", (
            "The request signature we calculated does not match the signature you provided.\n\n"
            "The Canonical String …"
        )
    return None


def _signature(
    credentials: Credentials,
    found: re.Match[str],
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
) -> str:
    signed = found["signed"].split(";")
    # The path is encoded once more for the signature, every service's but S3's.
    canonical = "\n".join(
        [
            method,
            path.replace("%", "%25"),
            "",
            *(f"{name}:{headers[name].strip()}" for name in signed),
            "",
            found["signed"],
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{found['date']}/{found['region']}/{found['service']}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return _hmac(key, "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], scope, digest])).hex()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
