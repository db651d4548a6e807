"""Keys in Secrets Manager, as the handler reads them: at its start, and every few minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError

from stream_aws.keys import KeysUnreadable

CLIENT_CONFIG = AioConfig(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
"""For `create_client("secretsmanager", …)`: the SDK's own would let a start wait for minutes."""

Keys = TypeVar("Keys")


class KeySecret(Generic[Keys]):
    """One secret.

    Args:
        client: aiobotocore's `secretsmanager` client.
        secret_id: its name or ARN.
        parse: makes the keys of the secret's string, or raises `KeysUnreadable`.
    """

    def __init__(self, client: Any, secret_id: str, parse: Callable[[str], Keys]) -> None:
        self._client = client
        self._secret_id = secret_id
        self._parse = parse

    async def read(self) -> Keys:
        """The keys.

        Raises:
            KeysUnreadable: they can't be had, or aren't what they should be; the message has no key.
        """
        try:
            answer = await self._client.get_secret_value(SecretId=self._secret_id, VersionStage="AWSCURRENT")
        except (BotoCoreError, ClientError) as error:
            raise KeysUnreadable(f"the secret can't be read: {error}") from error
        return self._parse(answer.get("SecretString", ""))
