"""Reads a secret with keys from Secrets Manager, at a handler's start and every few minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError

from evenflow.stream_aws.keys import KeysUnreadable

CLIENT_CONFIG = AioConfig(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}
)
"""The settings for `create_client("secretsmanager", …)`. The SDK's own would wait for minutes."""

Keys = TypeVar("Keys")


class KeySecret(Generic[Keys]):
    """One secret with keys.

    Args:
        client: an aiobotocore client of `secretsmanager`.
        secret_id: the secret's name or ARN.
        parse: turns the secret's text into keys, or raises `KeysUnreadable`.
    """

    def __init__(self, client: Any, secret_id: str, parse: Callable[[str], Keys]) -> None:
        self._client = client
        self._secret_id = secret_id
        self._parse = parse

    async def read(self) -> Keys:
        """Read the keys.

        Raises:
            KeysUnreadable: the secret can't be read or is wrong. The message has no key.
        """
        try:
            answer = await self._client.get_secret_value(
                SecretId=self._secret_id, VersionStage="AWSCURRENT"
            )
        except (BotoCoreError, ClientError) as error:
            raise KeysUnreadable(f"the secret can't be read: {error}") from error
        return self._parse(answer.get("SecretString", ""))
