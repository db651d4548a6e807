"""The emulator as AWS' own clients see it: boto3, and aiobotocore as the handler uses it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiobotocore.session import AioSession
from botocore.exceptions import ClientError

from stream_aws.dynamodb import cancellation_reasons, condition_failed, passes
from tests.dynamodb_emulator.direct_client import CREATE_TABLE, key, n, s
from tests.dynamodb_emulator.process import DynamoDBEmulator
from tests.integration.stores.stores import new_name


@pytest.fixture(scope="module")
def client(running: DynamoDBEmulator) -> Any:
    """boto3's."""
    return running.client("dynamodb")


@pytest.fixture
def table(client: Any) -> str:
    """A table, empty."""
    name = new_name("table")
    client.create_table(**CREATE_TABLE | {"TableName": name})
    client.get_waiter("table_exists").wait(TableName=name)
    return name


def test_every_type_there_and_back(client: Any, table: str) -> None:
    item = key("p", 1) | {
        "a": {"B": b"\x00\xff"},
        "b": {"BS": [b"x", b"y"]},
        "c": {"M": {"l": {"L": [{"NULL": True}, {"BOOL": True}, s("日本")]}}},
    }
    client.put_item(TableName=table, Item=item)
    assert client.get_item(TableName=table, Key=key("p", 1), ConsistentRead=True)["Item"] == item
    values = {":x": {"B": b"\x00"}}
    found = client.scan(TableName=table, FilterExpression="begins_with(a, :x)", ExpressionAttributeValues=values)
    assert found["Count"] == 1


def test_a_paginator_reads_everything(client: Any, table: str) -> None:
    for first in range(0, 60, 20):
        writes = [{"PutRequest": {"Item": key("p", sk) | {"a": s("x" * 50_000)}}} for sk in range(first, first + 20)]
        assert client.batch_write_item(RequestItems={table: writes})["UnprocessedItems"] == {}
    pages = client.get_paginator("query").paginate(
        TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": s("p")}
    )
    counts = [page["Count"] for page in pages]
    assert len(counts) == 3
    assert sum(counts) == 60


def test_refusals_are_what_the_sdk_knows(client: Any, table: str) -> None:
    item = key("p", 1) | {"a": n(1)}
    client.put_item(TableName=table, Item=item)
    conditional = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as failed:
        client.put_item(TableName=table, Item=item, **conditional)
    assert failed.value.response["Item"] == item
    assert condition_failed(failed.value)
    with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
        client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": item, **conditional}}])
    assert cancellation_reasons(cancelled.value) == ["ConditionalCheckFailed"]
    assert cancelled.value.response["CancellationReasons"][0]["Item"] == item
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_table(TableName="elsewhere")
    with pytest.raises(ClientError, match="reserved keyword: owner"):
        client.put_item(TableName=table, Item=item, ConditionExpression="attribute_exists(owner)")


def test_tables_and_their_time_to_live(client: Any, table: str) -> None:
    wanted = {"Enabled": True, "AttributeName": "expires_at"}
    assert (
        client.update_time_to_live(TableName=table, TimeToLiveSpecification=wanted)["TimeToLiveSpecification"] == wanted
    )
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    assert table in client.list_tables()["TableNames"]
    client.delete_table(TableName=table)
    client.get_waiter("table_not_exists").wait(TableName=table)


async def test_many_calls_at_once(emulator: DynamoDBEmulator, table: str) -> None:
    async with emulator.asynchronous_client(AioSession()) as client:
        add = {
            "TableName": table,
            "Key": key("p", 1),
            "UpdateExpression": "ADD polls :one",
            "ExpressionAttributeValues": {":one": n(1)},
            "ReturnValues": "ALL_NEW",
        }
        answers = await asyncio.gather(*(client.update_item(**add) for _ in range(200)))
        assert sorted(int(answer["Attributes"]["polls"]["N"]) for answer in answers) == list(range(1, 201))


@pytest.mark.parametrize(
    "faults", [{"throttled_share": 1.0}, {"unreachable_seconds": 60.0}, {"delay_ms": 60_000.0}], ids=str
)
async def test_faults_are_those_that_pass(emulator: DynamoDBEmulator, table: str, faults: dict[str, float]) -> None:
    async with emulator.asynchronous_client(AioSession()) as client:
        await client.get_item(TableName=table, Key=key("p", 1))
        emulator.set_faults(**faults)
        failures = await asyncio.gather(
            client.get_item(TableName=table, Key=key("p", 1)),
            client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": key("p", 1)}}]}),
            client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": key("p", 1)}}]),
            return_exceptions=True,
        )
        assert [isinstance(failure, Exception) and passes(failure) for failure in failures] == [True] * 3, failures
        emulator.set_faults()
        await client.get_item(TableName=table, Key=key("p", 1))
