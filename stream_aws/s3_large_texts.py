"""Large texts of messages in an S3 bucket. The bucket's lifecycle rules delete them."""

from __future__ import annotations

from typing import Any

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb import UNREACHABLE, error_code
from evenflow.stream_core.stores.response_store import StoreUnavailable

# The regional address, in us-east-1 too: tasks reach S3 only through their region's gateway
# endpoint.
CLIENT_CONFIG = AioConfig(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    s3={"us_east_1_regional_endpoint": "regional"},
)
"""The settings for `create_client("s3", …)`."""

PREFIX = "requests/"
"""The prefix of all objects. A task may not touch any others."""


class S3LargeTexts:
    """Large texts in S3 (`LargeTexts`).

    Args:
        client: an aiobotocore client of `s3`.
        bucket: the bucket's name. The bucket's rules encrypt and delete its objects.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def put(self, name: str, text: str) -> None:
        try:
            await self._client.put_object(
                Bucket=self._bucket, Key=PREFIX + name, Body=text.encode()
            )
        except (ClientError, *UNREACHABLE) as error:
            raise StoreUnavailable(f"S3 did not take the text of a message: {error}") from error

    async def get(self, name: str) -> str | None:
        try:
            answer = await self._client.get_object(Bucket=self._bucket, Key=PREFIX + name)
            async with answer["Body"] as body:
                text: bytes = await body.read()
        except ClientError as error:
            # A role that may not list gets AccessDenied instead. The ledger forgets a message
            # before its text.
            if error_code(error) == "NoSuchKey":
                return None
            raise StoreUnavailable(f"S3 did not give the text of a message: {error}") from error
        except UNREACHABLE as error:
            raise StoreUnavailable(f"S3 did not give the text of a message: {error}") from error
        return text.decode()

    async def delete(self, name: str) -> None:
        try:
            await self._client.delete_object(Bucket=self._bucket, Key=PREFIX + name)
        except (ClientError, *UNREACHABLE) as error:
            raise StoreUnavailable(f"S3 did not delete the text of a message: {error}") from error
