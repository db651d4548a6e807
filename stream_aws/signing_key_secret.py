"""The signing keys in Secrets Manager, as the handler reads them: at its start, and every few minutes."""

from __future__ import annotations

from typing import Any

from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError

from stream_aws.key_object import KeysUnreadable
from stream_aws.signing_keys import parse_signing_keys

CLIENT_CONFIG = AioConfig(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
"""For `create_client("secretsmanager", …)`: the SDK's own would let a start wait for minutes."""


class SigningKeySecret:
    """One secret.

    Args:
        client: aiobotocore's `secretsmanager` client.
        secret_id: its name or ARN.
    """

    def __init__(self, client: Any, secret_id: str) -> None:
        self._client = client
        self._secret_id = secret_id

    async def read(self) -> dict[str, bytes]:
        """Key id → key, the signing one first.

        Raises:
            KeysUnreadable: it can't be had, or isn't what it should be; the message has no key.
        """
        try:
            answer = await self._client.get_secret_value(SecretId=self._secret_id, VersionStage="AWSCURRENT")
        except (BotoCoreError, ClientError) as error:
            raise KeysUnreadable(f"the secret with the signing keys can't be read: {error}") from error
        return parse_signing_keys(answer.get("SecretString", ""))
