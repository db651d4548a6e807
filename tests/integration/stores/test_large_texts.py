"""Large texts in an emulated S3."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from aiobotocore.session import AioSession

from evenflow.stream_aws.s3_large_texts import CLIENT_CONFIG, PREFIX, S3LargeTexts
from tests.integration.aws_emulator import SIGNED_BY, AwsEmulator

_LONG = "wör " * 250_000


@pytest.fixture
async def large_texts(sdk: AioSession, emulated_aws: AwsEmulator) -> AsyncIterator[S3LargeTexts]:
    """Those of a bucket of their own."""
    async with sdk.create_client(
        "s3", config=CLIENT_CONFIG, endpoint_url=emulated_aws.endpoint, **SIGNED_BY
    ) as client:
        bucket = f"large-{uuid.uuid4().hex}"
        await client.create_bucket(Bucket=bucket)
        yield S3LargeTexts(client, bucket)
        for left in (await client.list_objects_v2(Bucket=bucket)).get("Contents", ()):
            assert left["Key"].startswith(PREFIX)


async def test_a_text_is_kept_until_it_is_deleted(large_texts: S3LargeTexts) -> None:
    await large_texts.put("rsp_1", _LONG)
    await large_texts.put("rsp_2", "another")
    assert await large_texts.get("rsp_1") == _LONG
    for _ in range(2):
        await large_texts.delete("rsp_1")
    assert await large_texts.get("rsp_1") is None
    assert await large_texts.get("rsp_2") == "another"
