"""Dead letters in an SQS queue."""

from __future__ import annotations

from typing import Any

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError
from pydantic import TypeAdapter

from evenflow.stream_aws.dynamodb import UNREACHABLE
from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLettersUnavailable

CLIENT_CONFIG = AioConfig(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}
)
"""The settings for `create_client("sqs", …)`."""

_LETTER = TypeAdapter(DeadLetter)


class SqsDeadLetters:
    """Dead letters in an SQS queue (`DeadLetters`).

    Args:
        client: an aiobotocore client of `sqs`.
    """

    def __init__(self, client: Any, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    async def send(self, letter: DeadLetter) -> None:
        try:
            await self._client.send_message(
                QueueUrl=self._queue_url, MessageBody=letter_body(letter)
            )
        except (ClientError, *UNREACHABLE) as error:
            raise DeadLettersUnavailable(f"SQS did not take the dead letter: {error}") from error


def letter_body(letter: DeadLetter) -> str:
    """The body of a letter's message."""
    return _LETTER.dump_json(letter).decode()


def read_letter(body: str) -> DeadLetter:
    """Read a letter from the body of its message.

    Raises:
        ValueError: the body has no letter.
    """
    return _LETTER.validate_json(body)
