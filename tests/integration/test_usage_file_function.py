"""The function that writes a file of each day's usage: whole, once, and what the command prints."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from evenflow.__main__ import main
from evenflow.functions.usage_file.usage_bucket import UsageBucket, Written
from evenflow.stream_aws.dynamodb import client_config
from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import UsageRecord
from tests.integration.aws_emulator import REGION, AwsEmulator
from tests.integration.lambda_function import LambdaFunction
from tests.integration.session_account import Account

DAY = 86_400.0


class Usage:
    """An account with a bucket: `acme` has a record, `zeta` only a key in the secret."""

    def __init__(self, aws: AwsEmulator) -> None:
        self._account = Account(aws, {"zeta": "key-of-zeta-0123456789"})
        self._account.change_tenant("acme", Tenant(id="acme"), 0)
        self.s3 = aws.client("s3")
        self.bucket = f"usage-{uuid.uuid4().hex}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.dynamodb, self.table = self._account.dynamodb, self._account.tenants
        self.now = time.time() - 900  # the function's days have ended a quarter of an hour ago
        self.variables = aws.environment | {
            "EVENFLOW_TENANTS_TABLE": self.table,
            "EVENFLOW_TENANT_KEYS_SECRET": self._account.tenant_keys,
            "EVENFLOW_USAGE_BUCKET": self.bucket,
            "POWERTOOLS_SERVICE_NAME": "usage_file",
        }

    def function(self, **variables: str) -> LambdaFunction:
        """The function, loaded anew."""
        return LambdaFunction("usage_file", self.variables | variables)

    def day(self, ago: int) -> str:
        """The day so many days ago."""
        return day_of(self.now - ago * DAY)

    def settle(self, *answers: tuple[str, str, int], user: str = "ann") -> None:
        """Answers on record: of which tenant, their id, and how many days ago."""

        async def fill() -> None:
            config = client_config(connections=1)
            session = get_session()
            # The variables of `evenflow tenants`, which the test has set.
            async with session.create_client("dynamodb", REGION, config=config) as client:
                store = DynamoDBUsageStore(client, self.table, lambda: None)
                for tenant, response_id, ago in answers:
                    await store.settle(self._record(tenant, response_id, ago, user))

        asyncio.run(fill())

    def _record(self, tenant: str, response_id: str, ago: int, user: str) -> UsageRecord:
        return UsageRecord(
            tenant=tenant,
            response_id=response_id,
            agent="demo",
            user=user,
            key="k1",
            model="m",
            state="completed",
            ended_at=self.now - ago * DAY,
            input_tokens=3,
            nanodollars=5_000_000,
        )

    def files(self) -> dict[str, bytes]:
        """What is in the bucket."""
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {
            each["Key"]: self.s3.get_object(Bucket=self.bucket, Key=each["Key"])["Body"].read()
            for each in found
        }


@pytest.fixture
def usage(emulated_aws: AwsEmulator, monkeypatch: pytest.MonkeyPatch) -> Usage:
    usage = Usage(emulated_aws)
    variables = usage.variables | {"EVENFLOW_STORE": "dynamodb"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return usage


def ids(content: bytes) -> list[tuple[str, str]]:
    return [(line["tenant"], line["response_id"]) for line in map(json.loads, content.splitlines())]


def test_days_that_have_no_file_get_one_with_the_bytes_that_the_command_prints(
    usage: Usage, capsys: pytest.CaptureFixture[str]
) -> None:
    users = {f"user-{number}": f"rsp_{number}" for number in range(5)}
    for user, response_id in users.items():
        usage.settle(("acme", response_id, 1), user=user)
    usage.settle(("zeta", "rsp_z", 1), ("acme", "rsp_old", 3), ("acme", "rsp_today", 0))
    function = usage.function()
    assert function.invoke({"source": "aws.events"}) is None
    files = usage.files()
    assert list(files) == [f"usage/{usage.day(ago)}.jsonl" for ago in range(7, 0, -1)]
    yesterday = files[f"usage/{usage.day(1)}.jsonl"]
    assert sorted(ids(yesterday)) == sorted(
        [*(("acme", i) for i in users.values()), ("zeta", "rsp_z")]
    )
    assert ids(files[f"usage/{usage.day(3)}.jsonl"]) == [("acme", "rsp_old")]
    assert files[f"usage/{usage.day(2)}.jsonl"] == b""
    capsys.readouterr()
    assert main(["tenants", "usage-file", usage.day(1), "zeta", "acme"]) == 0
    assert capsys.readouterr().out.encode() == yesterday


def test_a_file_that_is_there_stays_and_is_made_anew_when_that_is_asked_for(usage: Usage) -> None:
    usage.settle(("acme", "rsp_1", 1))
    function = usage.function()
    function.invoke({})
    before = usage.files()
    usage.settle(("acme", "rsp_2", 1))  # as a repair would
    function.invoke({})
    assert usage.files() == before
    function.invoke({"day": usage.day(1)})
    assert ids(usage.files()[f"usage/{usage.day(1)}.jsonl"]) == [
        ("acme", "rsp_1"),
        ("acme", "rsp_2"),
    ]
    function.invoke({"day": usage.day(3)})
    assert usage.files()[f"usage/{usage.day(3)}.jsonl"] == b""


def test_a_day_that_was_missed_is_caught_up_and_no_other_is_written(usage: Usage) -> None:
    usage.settle(("acme", "rsp_1", 1), ("acme", "rsp_2", 2))
    function = usage.function()
    function.invoke({})
    before = usage.files()
    missed = f"usage/{usage.day(2)}.jsonl"
    usage.s3.delete_object(Bucket=usage.bucket, Key=missed)
    usage.settle(("acme", "rsp_late", 1))
    function.invoke({})
    assert usage.files() == before


@pytest.mark.parametrize("ago", [0, 8])
def test_a_day_that_has_not_ended_or_is_forgotten_is_not_written(usage: Usage, ago: int) -> None:
    function = usage.function(EVENFLOW_USAGE_TTL_SECONDS=f"{7 * DAY:.0f}")
    with pytest.raises(ValueError, match="was not written"):
        function.invoke({"day": usage.day(ago)})
    assert usage.files() == {}


def test_what_fails_is_raised_and_written_by_the_next_call(usage: Usage) -> None:
    usage.settle(("acme", "rsp_1", 1))
    function = usage.function()
    usage.s3.delete_bucket(Bucket=usage.bucket)
    with pytest.raises(ClientError, match="NoSuchBucket"):
        function.invoke({})
    usage.s3.create_bucket(Bucket=usage.bucket)
    function.invoke({})
    assert len(usage.files()) == 7


def test_a_day_that_cannot_be_written_keeps_no_other_from_being_so(usage: Usage) -> None:
    usage.settle(("acme", "rsp_1", 1), ("acme", "rsp_3", 3))
    broken = {"tenant": "acme#3", "row": f"used#{usage.day(2)}#", "record": "{"}
    item = {name: {"S": value} for name, value in broken.items()}
    usage.dynamodb.put_item(TableName=usage.table, Item=item)
    with pytest.raises(Exception, match=f"of {usage.day(2)} is not written"):
        usage.function().invoke({})
    assert len(usage.files()) == 6
    assert ids(usage.files()[f"usage/{usage.day(3)}.jsonl"]) == [("acme", "rsp_3")]


class TestTheBucket:
    def test_a_day_of_any_size_is_written_in_parts(self, usage: Usage) -> None:
        bucket = UsageBucket(usage.s3, usage.bucket)
        for lines in (0, 1, 8_192, 20_000):  # 8 MiB is a part
            written = bucket.put("2026-11-23", (b"%1023d\n" % number for number in range(lines)))
            assert written == Written("2026-11-23", 1024 * lines)
            (content,) = usage.files().values()
            assert content == b"".join(b"%1023d\n" % number for number in range(lines))

    def test_an_object_is_there_when_it_is_whole(self, usage: Usage) -> None:
        def broken() -> Iterable[bytes]:
            yield from (b"x" * 1024 for _ in range(10_000))
            raise OSError("the table is gone")

        with pytest.raises(OSError, match="is gone"):
            UsageBucket(usage.s3, usage.bucket).put("2026-11-23", broken())
        assert usage.files() == {}
        uploads: dict[str, Any] = usage.s3.list_multipart_uploads(Bucket=usage.bucket)
        assert "Uploads" not in uploads
