"""Tables: made, described, listed, deleted; and their time to live."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.direct_client import CREATE_TABLE, TABLE, DirectClient, key, n, s

HASH = {"AttributeName": "pk", "KeyType": "HASH"}
RANGE = {"AttributeName": "sk", "KeyType": "RANGE"}
PK, SK = ({"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk"))
PROVISIONED = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
SMALL: dict[str, Any] = {
    "TableName": "small",
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [HASH],
    "AttributeDefinitions": [PK],
}


def index(**others: Any) -> dict[str, Any]:
    """A request for a table with this index."""
    wanted = {"IndexName": "an-index", "KeySchema": [HASH], "Projection": {"ProjectionType": "ALL"}} | others
    return SMALL | {"GlobalSecondaryIndexes": [wanted]}


def test_a_table_is_described_as_it_was_made(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, a=s("x" * 100))
    described = dynamodb("DescribeTable", TableName=TABLE)["Table"]
    for part in ("TableName", "KeySchema", "AttributeDefinitions"):
        assert described[part] == CREATE_TABLE[part]
    assert described["TableStatus"] == "ACTIVE"
    assert described["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}
    assert (described["ItemCount"], described["TableSizeBytes"]) == (1, 108)
    assert [each["IndexName"] for each in described["GlobalSecondaryIndexes"]] == ["all-by-group", "keys_only-by-group"]
    assert {each["IndexStatus"] for each in described["GlobalSecondaryIndexes"]} == {"ACTIVE"}
    provisioned = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": PROVISIONED}
    made = dynamodb("CreateTable", **SMALL | provisioned)["TableDescription"]
    assert made["TableStatus"] == "CREATING"
    assert made["ProvisionedThroughput"] == PROVISIONED | {"NumberOfDecreasesToday": 0}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (CREATE_TABLE, "ResourceInUseException"),
        (SMALL | {"TableName": "no"}, "regular expression pattern"),
        (SMALL | {"TableName": "a b c"}, "regular expression pattern"),
        (SMALL | {"KeySchema": []}, "Invalid KeySchema"),
        (SMALL | {"KeySchema": [RANGE]}, "Invalid KeySchema"),
        (SMALL | {"KeySchema": [HASH, HASH]}, "Invalid KeySchema"),
        (SMALL | {"KeySchema": [HASH, RANGE]}, "not defined in AttributeDefinitions"),
        (SMALL | {"AttributeDefinitions": [PK, SK]}, "Some AttributeDefinitions are not used"),
        (SMALL | {"AttributeDefinitions": [PK, PK]}, "AttributeDefinitions"),
        (SMALL | {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "SS"}]}, "enum value set"),
        (SMALL | {"ProvisionedThroughput": PROVISIONED}, "ReadCapacityUnits"),
        (SMALL | {"BillingMode": "PROVISIONED"}, "ReadCapacityUnits"),
        (SMALL | {"StreamSpecification": {"StreamEnabled": True}}, "StreamSpecification is unknown, or not emulated"),
        (SMALL | {"LocalSecondaryIndexes": []}, "LocalSecondaryIndexes is unknown, or not emulated"),
        (SMALL | {"GlobalSecondaryIndexes": []}, "1 to 20 indexes"),
        (index(KeySchema=[RANGE]), "Invalid KeySchema"),
        (index(KeySchema=[HASH, RANGE]), "not defined in AttributeDefinitions"),
        (index(Projection={"ProjectionType": "SOME"}), "enum value set"),
        (index(Projection={"ProjectionType": "INCLUDE"}), "NonKeyAttributes"),
        (index(Projection={"ProjectionType": "ALL", "NonKeyAttributes": ["a"]}), "NonKeyAttributes"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_table(dynamodb: DirectClient, request_: dict[str, Any], words: str) -> None:
    dynamodb.refused("CreateTable", words, **request_)
    assert dynamodb("ListTables") == {"TableNames": [TABLE]}


def test_an_index_may_include_some_attributes(dynamodb: DirectClient) -> None:
    dynamodb("CreateTable", **index(Projection={"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a"]}))
    dynamodb("PutItem", TableName="small", Item={"pk": s("p"), "a": n(1), "b": n(2)})
    assert dynamodb("Scan", TableName="small", IndexName="an-index")["Items"] == [{"pk": s("p"), "a": n(1)}]


def test_a_deleted_table_is_gone_with_its_items(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1)
    assert dynamodb("DeleteTable", TableName=TABLE)["TableDescription"]["TableStatus"] == "DELETING"
    for operation in ("DescribeTable", "DeleteTable", "DescribeTimeToLive"):
        dynamodb.refused(operation, f"Table: {TABLE} not found", TableName=TABLE)
    dynamodb.refused("GetItem", "ResourceNotFoundException", TableName=TABLE, Key=key("p", 1))
    dynamodb("CreateTable", **CREATE_TABLE)
    assert dynamodb.get("p", 1) is None


def test_tables_are_listed_by_their_names(dynamodb: DirectClient) -> None:
    for name in ("zzz", "aaa", "mmm"):
        dynamodb("CreateTable", **SMALL | {"TableName": name})
    assert dynamodb("ListTables") == {"TableNames": ["aaa", TABLE, "mmm", "zzz"]}
    assert dynamodb("ListTables", Limit=2) == {"TableNames": ["aaa", TABLE], "LastEvaluatedTableName": TABLE}
    assert dynamodb("ListTables", ExclusiveStartTableName=TABLE) == {"TableNames": ["mmm", "zzz"]}
    dynamodb.refused("ListTables", "limit", Limit=101)


def test_time_to_live(dynamodb: DirectClient) -> None:
    def specified(enabled: bool, attribute: str = "expires_at") -> dict[str, Any]:
        return {"TableName": TABLE, "TimeToLiveSpecification": {"Enabled": enabled, "AttributeName": attribute}}

    def status() -> dict[str, str]:
        described: dict[str, str] = dynamodb("DescribeTimeToLive", TableName=TABLE)["TimeToLiveDescription"]
        return described

    assert status() == {"TimeToLiveStatus": "DISABLED"}
    dynamodb.refused("UpdateTimeToLive", "already disabled", **specified(enabled=False))
    dynamodb("UpdateTimeToLive", **specified(enabled=True))
    assert status() == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    dynamodb.refused("UpdateTimeToLive", "already enabled", **specified(enabled=True, attribute="other"))
    dynamodb.refused("UpdateTimeToLive", "current AttributeName is expires_at", **specified(False, "other"))
    dynamodb.put("p", 1, expires_at=n(1))
    assert dynamodb.get("p", 1) is not None  # DynamoDB may take days
    dynamodb("UpdateTimeToLive", **specified(enabled=False))
    assert status() == {"TimeToLiveStatus": "DISABLED"}
