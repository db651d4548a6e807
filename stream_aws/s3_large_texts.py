"""Large texts of messages as objects of an S3 bucket, which forgets them by itself."""

from __future__ import annotations

from typing import Any

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError

from stream_aws.dynamodb import UNREACHABLE, error_code
from stream_core.ports.response_store import StoreUnavailable

# By its regional address in us-east-1 too: tasks reach S3 only through the gateway endpoint of their own region.
CLIENT_CONFIG = AioConfig(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    s3={"us_east_1_regional_endpoint": "regional"},
)
"""For `create_client("s3", …)`."""

PREFIX = "requests/"
"""All objects are below it; a task may do nothing to any other."""


class S3LargeTexts:
    """See `stream_core.ports.session_store.LargeTexts`.

    Args:
        client: aiobotocore's `s3` client.
        bucket: the bucket's name. What encrypts its objects, and when they go, are rules of the bucket.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def put(self, name: str, text: str) -> None:
        """See the port."""
        try:
            await self._client.put_object(Bucket=self._bucket, Key=PREFIX + name, Body=text.encode())
        except (ClientError, *UNREACHABLE) as error:
            raise StoreUnavailable(f"S3 did not take the text of a message: {error}") from error

    async def get(self, name: str) -> str | None:
        """See the port."""
        try:
            answer = await self._client.get_object(Bucket=self._bucket, Key=PREFIX + name)
            async with answer["Body"] as body:
                text: bytes = await body.read()
        except ClientError as error:
            # A role that may not list is told AccessDenied instead. The ledger forgets a message before its text goes.
            if error_code(error) == "NoSuchKey":
                return None
            raise StoreUnavailable(f"S3 did not give the text of a message: {error}") from error
        except UNREACHABLE as error:
            raise StoreUnavailable(f"S3 did not give the text of a message: {error}") from error
        return text.decode()
