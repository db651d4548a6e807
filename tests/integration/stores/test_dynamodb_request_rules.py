"""The rules that every request of the store tests is held against: each of them finds what it is for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.dynamodb_request_rules import RESERVED_WORDS, breaches, item_size

TABLE = "test-responses"
KEY = {"response_id": {"S": "r"}, "position": {"S": "1"}}
UPDATE: dict[str, Any] = {
    "TableName": TABLE,
    "Key": KEY,
    "UpdateExpression": "SET #owner = :owner, epoch = if_not_exists(epoch, :one), starts.#two = :one ADD polls :one",
    "ConditionExpression": "attribute_exists(response_id) AND (size(#owner) < :one OR NOT epoch BETWEEN :one AND :two)",
    "ExpressionAttributeNames": {"#owner": "owner", "#two": "2"},
    "ExpressionAttributeValues": {":owner": {"S": "a"}, ":one": {"N": "1"}, ":two": {"N": "2"}},
}
QUERY: dict[str, Any] = {
    "TableName": TABLE,
    "KeyConditionExpression": "response_id = :r AND #p >= :p",
    "ExpressionAttributeNames": {"#p": "position"},
    "ExpressionAttributeValues": {":r": {"S": "r"}, ":p": {"S": "0"}},
}
INDEX_QUERY: dict[str, Any] = {
    "TableName": TABLE,
    "IndexName": "by-owner",
    "KeyConditionExpression": "running = :owner",
    "ExpressionAttributeValues": {":owner": {"S": "a"}},
}
CHECK = {"TableName": TABLE, "Key": KEY, "ConditionExpression": "attribute_exists(response_id)"}


def put(item: dict[str, Any]) -> dict[str, Any]:
    return {"TableName": TABLE, "Item": KEY | item}


def batch(*items: dict[str, Any]) -> dict[str, Any]:
    return {"RequestItems": {TABLE: [{"PutRequest": {"Item": KEY | item}} for item in items]}}


def numbered(count: int, item: dict[str, Any]) -> dict[str, Any]:
    return batch(*(item | {"position": {"S": str(number)}} for number in range(count)))


def among(count: int) -> dict[str, Any]:
    names = [f":name{number}" for number in range(count)]
    return CHECK | {
        "ConditionExpression": f"epoch IN ({', '.join(names)})",
        "ExpressionAttributeValues": {name: {"S": name} for name in names},
    }


def test_the_list_of_reserved_words_is_whole() -> None:
    assert len(RESERVED_WORDS) == 573
    assert {"POSITION", "OWNER", "FIRST", "TEXT", "TTL", "ABORT", "ZONE"} <= RESERVED_WORDS
    assert not {"EPOCH", "STARTS", "ENDING", "EXPIRES_AT", "POLLS", "CHANNEL"} & RESERVED_WORDS


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("GetItem", {"TableName": TABLE, "Key": KEY, "ConsistentRead": True}),
        ("GetItem", {"TableName": "test-sessions", "Key": {"channel": {"S": "a:b:c"}}}),
        ("PutItem", put({"text": {"S": ""}, "n": {"N": "1800000000.25"}, "m": {"M": {"1": {"N": "0"}}}})),
        ("UpdateItem", UPDATE),
        ("Query", QUERY),
        ("Query", INDEX_QUERY),
        ("DeleteItem", CHECK),
        ("PutItem", put({"running": {"S": "a"}})),
        ("UpdateItem", among(100)),
        ("BatchWriteItem", numbered(25, {"e": {"S": "x" * 400_000}})),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": CHECK}], "ClientRequestToken": "t" * 36}),
        ("CreateTable", {"TableName": TABLE}),
    ],
)
def test_what_dynamodb_takes(operation: str, request_: dict[str, Any]) -> None:
    assert breaches(operation, request_) == []


@pytest.mark.parametrize(
    ("operation", "request_", "breach"),
    [
        ("GetItem", {"TableName": TABLE, "Key": {"response_id": {"S": "r"}}}, "does not match the schema"),
        ("GetItem", {"TableName": TABLE, "Key": KEY | {"x": {"S": "x"}}}, "does not match the schema"),
        ("GetItem", {"TableName": TABLE, "Key": KEY | {"position": {"N": "1"}}}, "type mismatch"),
        ("GetItem", {"TableName": TABLE, "Key": KEY | {"position": {"S": ""}}}, "has 1 to 1024 bytes"),
        ("GetItem", {"TableName": TABLE, "Key": KEY | {"position": {"S": "é" * 513}}}, "has 1 to 1024 bytes"),
        ("GetItem", {"TableName": TABLE, "Key": KEY, "ExpressionAttributeNames": {"#a": "a"}}, "unused"),
        ("PutItem", {"TableName": TABLE, "Item": {"response_id": {"S": "r"}}}, "does not match the schema"),
        ("PutItem", put({"e": {"S": "x" * 410_000}}), "item size"),
        ("PutItem", put({"e": {"SS": []}}), "a set may not be empty"),
        ("PutItem", put({"e": {"NS": ["1", "1"]}}), "repeat itself"),
        ("PutItem", put({"e": {"N": 1}}), "not of the type N"),
        ("PutItem", put({"e": {"S": None}}), "not of the type S"),
        ("PutItem", put({"e": {"BOOL": "true"}}), "not of the type BOOL"),
        ("PutItem", put({"e": {"N": ""}}), "no number"),
        ("PutItem", put({"e": {"N": "nan"}}), "no number"),
        ("PutItem", put({"e": {"N": "1" * 39}}), "no number"),
        ("PutItem", put({"e": {"N": "1e126"}}), "no number"),
        ("PutItem", put({"e": {"S": "x", "N": "1"}}), "exactly one"),
        ("PutItem", put({"e": {"M": {"deep": {"L": [{"N": "x"}]}}}}), "no number"),
        ("PutItem", put({}) | {"ReturnValues": "ALL_NEW"}, "ReturnValues of a put"),
        ("PutItem", put({"running": {"S": ""}}), "the index by-owner"),
        ("PutItem", put({"running": {"N": "1"}}), "the index by-owner"),
        ("DeleteItem", CHECK | {"Key": {"response_id": {"S": "r"}}}, "does not match the schema"),
        ("DeleteItem", CHECK | {"ConditionExpression": "owner = owner"}, "reserved keyword: owner"),
        ("UpdateItem", among(101), "at most 100 operands"),
        ("UpdateItem", UPDATE | {"ConditionExpression": "owner = :two"}, "reserved keyword: owner"),
        ("UpdateItem", UPDATE | {"UpdateExpression": "SET #owner = :owner, starts.2 = :one"}, "starts with a digit"),
        ("UpdateItem", UPDATE | {"ConditionExpression": "epoch = :one"}, "ExpressionAttributeValues unused"),
        ("UpdateItem", UPDATE | {"UpdateExpression": "SET epoch = :owner"}, "ExpressionAttributeNames unused"),
        ("UpdateItem", UPDATE | {"ConditionExpression": "epoch < :three AND epoch > :two"}, "doesn't define"),
        ("UpdateItem", UPDATE | {"ExpressionAttributeNames": {}}, "must not be empty"),
        ("UpdateItem", UPDATE | {"ConditionExpression": ""}, "empty"),
        ("UpdateItem", UPDATE | {"ReturnValues": "NEW"}, "ReturnValues can't be NEW"),
        (
            "UpdateItem",
            {"TableName": TABLE, "Key": KEY, "UpdateExpression": "REMOVE a, position"},
            "part of the key",
        ),
        ("UpdateItem", {"TableName": TABLE, "Key": KEY, "UpdateExpression": "REMOVE a, a.b"}, "overlap"),
        (
            "UpdateItem",
            {
                "TableName": TABLE,
                "Key": KEY,
                "UpdateExpression": "SET a = list_append(a, :l), b = :l REMOVE a",
                "ExpressionAttributeValues": {":l": {"L": []}},
            },
            "overlap",
        ),
        ("Query", QUERY | {"KeyConditionExpression": "response_id >= :r AND #p >= :p"}, "needs response_id ="),
        ("Query", QUERY | {"KeyConditionExpression": "response_id = :r AND epoch = :p"}, "can't name epoch"),
        ("Query", QUERY | {"KeyConditionExpression": "response_id = :r AND #p > :p AND #p < :p"}, "several"),
        ("Query", QUERY | {"KeyConditionExpression": "response_id = :r OR #p > :p"}, "no OR"),
        ("Query", QUERY | {"KeyConditionExpression": "response_id = :r AND position >= :p"}, "reserved keyword"),
        ("Query", INDEX_QUERY | {"IndexName": "by-agent"}, "does not have the specified index"),
        ("Query", INDEX_QUERY | {"TableName": "test-ledger"}, "does not have the specified index"),
        ("Query", INDEX_QUERY | {"ConsistentRead": True}, "consistent reads are not supported"),
        ("Query", INDEX_QUERY | {"KeyConditionExpression": "response_id = :owner"}, "needs running ="),
        ("BatchWriteItem", batch({}, {"e": {"S": "x"}}), "contains duplicates"),
        ("BatchWriteItem", {"RequestItems": {}}, "1 to 25 writes"),
        ("BatchWriteItem", numbered(26, {}), "1 to 25 writes"),
        ("BatchWriteItem", numbered(2, {"e": {"S": "x" * 410_000}}), "item size"),
        ("BatchWriteItem", numbered(25, {"e": {"S": "é" * 350_000}}), "a batch is at most"),
        (
            "TransactWriteItems",
            {"TransactItems": [{"ConditionCheck": CHECK}, {"Update": UPDATE}]},
            "several operations",
        ),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": CHECK, "Put": put({})}]}, "is one operation"),
        ("TransactWriteItems", {"TransactItems": []}, "1 to 100"),
        ("TransactWriteItems", {"TransactItems": [{"Put": put({})}], "ClientRequestToken": "t" * 37}, "36"),
        (
            "TransactWriteItems",
            {"TransactItems": [{"ConditionCheck": {"TableName": TABLE, "Key": KEY}}]},
            "no ConditionExpression",
        ),
        (
            "TransactWriteItems",
            {
                "TransactItems": [
                    {"Put": put({"position": {"S": str(number)}, "e": {"S": "x" * 400_000}})} for number in range(11)
                ]
            },
            "a transaction is at most",
        ),
    ],
)
def test_what_dynamodb_refuses(operation: str, request_: dict[str, Any], breach: str) -> None:
    assert any(breach in found for found in breaches(operation, request_)), breaches(operation, request_)


def test_the_size_of_an_item() -> None:
    assert item_size({"name": {"S": "é"}}) == 4 + 2
    assert item_size({"flag": {"BOOL": True}}) == 5
    assert item_size({"m": {"M": {"k": {"S": "vv"}}}}) == 1 + 3 + 1 + 1 + 2
