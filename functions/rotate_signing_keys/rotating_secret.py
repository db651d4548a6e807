"""One rotation of one secret, as Secrets Manager's protocol has it: four steps, each of which may be repeated."""

from __future__ import annotations

import json
import secrets
from typing import Any

from functions.rotate_signing_keys.rotation import RotationRefused, check_tokens, rotated
from stream_aws.signing_keys import parse_signing_keys

_CURRENT, _PENDING = "AWSCURRENT", "AWSPENDING"


class RotatingSecret:
    """The secret, and the version that this rotation makes.

    Args:
        client: a Secrets Manager client of boto3.
        version: the rotation's `ClientRequestToken`, which is the new version's id.
    """

    def __init__(self, client: Any, secret_id: str, version: str) -> None:
        self._client = client
        self._secret_id = secret_id
        self._version = version

    def is_current(self) -> bool:
        """Whether the rotation is over already.

        Raises:
            RotationRefused: it is not this secret's rotation, or another one has taken its place.
        """
        described = self._client.describe_secret(SecretId=self._secret_id)
        if not described.get("RotationEnabled"):
            raise RotationRefused("rotation is not enabled for this secret; nothing was changed")
        stages = described["VersionIdsToStages"].get(self._version, [])
        if _CURRENT not in stages and _PENDING not in stages:
            raise RotationRefused("the version is not the pending one of this secret; nothing was changed")
        return _CURRENT in stages

    def create(self) -> None:
        """Make the new version, unless it is there: a second one would have another fresh key.

        Raises:
            KeysUnreadable, RotationRefused: see `parse_signing_keys` and `rotated`.
        """
        try:
            self._pending()
        except self._client.exceptions.ResourceNotFoundException:
            current = {kid: key.decode() for kid, key in parse_signing_keys(self._current()).items()}
            keys = rotated(current, f"k{secrets.token_hex(8)}", secrets.token_urlsafe(48))
            self._client.put_secret_value(
                SecretId=self._secret_id,
                ClientRequestToken=self._version,
                SecretString=json.dumps(keys),
                VersionStages=[_PENDING],
            )

    def test(self) -> None:
        """Issue and verify tokens across the new version and the current one.

        Raises:
            KeysUnreadable, AuthenticationFailed: the new version would log somebody out; the current one stays.
        """
        check_tokens(parse_signing_keys(self._pending()), parse_signing_keys(self._current()))

    def finish(self) -> None:
        """Make the new version the current one; Secrets Manager keeps the old one as AWSPREVIOUS."""
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
        value: str = self._client.get_secret_value(SecretId=self._secret_id, **version)["SecretString"]
        return value
