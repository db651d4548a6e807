"""The steps of a rotation of the signing keys."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from evenflow.stream_aws.keys import parse_signing_keys
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel

_CURRENT, _PENDING = "AWSCURRENT", "AWSPENDING"


class RotatingSecret:
    """The secret, and the new version that this rotation makes of it.

    Args:
        client: a boto3 client of Secrets Manager.
        version: the new version's id, which is the rotation's `ClientRequestToken`.
    """

    def __init__(self, client: Any, secret_id: str, version: str) -> None:
        self._client = client
        self._secret_id = secret_id
        self._version = version

    def is_current(self) -> bool:
        """Whether the rotation is over.

        Raises:
            RotationRefused: it is another secret's rotation, or a later one has taken its place.
        """
        described = self._client.describe_secret(SecretId=self._secret_id)
        if not described.get("RotationEnabled"):
            raise RotationRefused("rotation is not enabled for this secret; nothing was changed")
        stages = described["VersionIdsToStages"].get(self._version, [])
        if _CURRENT not in stages and _PENDING not in stages:
            raise RotationRefused(
                "the version is not the pending one of this secret; nothing was changed"
            )
        return _CURRENT in stages

    def create(self) -> None:
        """Make the new version unless there is one: a second one would have another new key.

        Raises:
            KeysUnreadable: the current version is wrong.
            RotationRefused: the current version has too many keys.
        """
        try:
            self._pending()
        except self._client.exceptions.ResourceNotFoundException:
            current = {
                kid: key.decode() for kid, key in parse_signing_keys(self._current()).items()
            }
            keys = rotated(current, f"k{secrets.token_hex(8)}", secrets.token_urlsafe(48))
            self._client.put_secret_value(
                SecretId=self._secret_id,
                ClientRequestToken=self._version,
                SecretString=json.dumps(keys),
                VersionStages=[_PENDING],
            )

    def test(self) -> None:
        """Check that each version, the new and the current, accepts the other's tokens.

        Raises:
            KeysUnreadable, AuthenticationFailed: the new version would invalidate valid tokens. The
                current one stays.
        """
        check_tokens(parse_signing_keys(self._pending()), parse_signing_keys(self._current()))

    def finish(self) -> None:
        """Make the new version current. Secrets Manager keeps the old one as AWSPREVIOUS."""
        current = self._client.get_secret_value(SecretId=self._secret_id, VersionStage=_CURRENT)
        self._client.update_secret_version_stage(
            SecretId=self._secret_id,
            VersionStage=_CURRENT,
            MoveToVersionId=self._version,
            RemoveFromVersionId=current["VersionId"],
        )

    def _current(self) -> str:
        return self._value(VersionStage=_CURRENT)

    def _pending(self) -> str:
        return self._value(VersionId=self._version, VersionStage=_PENDING)

    def _value(self, **version: str) -> str:
        value: str = self._client.get_secret_value(SecretId=self._secret_id, **version)[
            "SecretString"
        ]
        return value


_MOST_KEYS = 3
_TOKEN_SECONDS = 60


class RotationRefused(Exception):
    """The keys can't be rotated without invalidating tokens. The message says what to mend."""


def rotated(keys: dict[str, str], fresh_kid: str, fresh_key: str) -> dict[str, str]:
    """The keys after a rotation, the signing one first.

    Args:
        keys: secrets by key id: `[current]` when the secret is new, `[current, next]` after its
            first rotation, then `[current, previous, next]`. A single key goes on signing, since
            other processes have not read the new one yet.

    Raises:
        RotationRefused: there is no key, or more than three, or the new key's id is taken.
    """
    if not 1 <= len(keys) <= _MOST_KEYS:
        raise RotationRefused(
            f"the secret has {len(keys)} keys, but rotation keeps {_MOST_KEYS}: current, previous, "
            "next. Keep those whose tokens are still valid, the signing one first"
        )
    if fresh_kid in keys:
        raise RotationRefused(f"the id {fresh_kid!r} is taken; rotate again")
    (current, current_key), *others = keys.items()
    signing = dict(others[-1:])
    return {**signing, current: current_key, fresh_kid: fresh_key}


def check_tokens(keys: dict[str, bytes], others: dict[str, bytes]) -> None:
    """Check that both sets of keys accept each other's tokens: processes may have either.

    Raises:
        AuthenticationFailed: a token of one set is not valid with the other.
    """
    now = time.time()
    sets = [SessionTokens(keys), SessionTokens(others)]
    for issuer in sets:
        token, _ = issuer.issue(Channel("rotation", "test", "token"), now, _TOKEN_SECONDS)
        for verifier in sets:
            verifier.verify(token, now)
