"""BatchWriteItem and BatchGetItem."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, key, n, s


def put(sk: int, **attributes: Any) -> dict[str, Any]:
    """A write of an item."""
    return {"PutRequest": {"Item": key("p", sk) | attributes}}


def delete(sk: int) -> dict[str, Any]:
    """The deletion of one."""
    return {"DeleteRequest": {"Key": key("p", sk)}}


def test_writes_of_several_tables(dynamodb: DirectClient) -> None:
    dynamodb(
        "CreateTable",
        TableName="others",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    dynamodb.put("p", 1)
    other = {"id": s("x"), "a": n(1)}
    writes = {TABLE: [put(2), delete(1), delete(3)], "others": [{"PutRequest": {"Item": other}}]}
    assert dynamodb("BatchWriteItem", RequestItems=writes) == {"UnprocessedItems": {}}
    assert dynamodb.query() == [2]
    keys = {TABLE: {"Keys": [key("p", 1), key("p", 2)], "ConsistentRead": True}, "others": {"Keys": [{"id": s("x")}]}}
    assert dynamodb("BatchGetItem", RequestItems=keys) == {
        "Responses": {TABLE: [key("p", 2)], "others": [other]},
        "UnprocessedKeys": {},
    }


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ({}, "length"),
        ({TABLE: []}, "length"),
        ({TABLE: [put(sk) for sk in range(26)]}, "length less than or equal to 25"),
        ({TABLE: [put(1), put(1, a=n(1))]}, "contains duplicates"),
        ({TABLE: [put(1), delete(1)]}, "contains duplicates"),
        ({TABLE: [put(1), {}]}, "exactly one of PutRequest and DeleteRequest"),
        ({TABLE: [put(1), put(2) | delete(2)]}, "exactly one of PutRequest and DeleteRequest"),
        ({TABLE: [put(1), {"PutRequest": {"Item": key("p", 2), "ConditionExpression": "a"}}]}, "is unknown"),
        ({TABLE: [put(1), {"PutRequest": {"Item": {"pk": s("p")}}}]}, "Missing the key sk"),
        ({TABLE: [put(1), put(2, a=s("x" * 409_600))]}, "Item size has exceeded"),
        ({TABLE: [put(1)], "elsewhere": [put(1)]}, "ResourceNotFoundException"),
        ({TABLE: put(1)}, "SerializationException"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_batch_that_is_refused_writes_nothing(dynamodb: DirectClient, items: Any, words: str) -> None:
    dynamodb.refused("BatchWriteItem", words, RequestItems=items)
    assert dynamodb.query() == []


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ({}, "length"),
        ({TABLE: {"Keys": []}}, "length"),
        ({TABLE: {"Keys": [key("p", sk) for sk in range(101)]}}, "length less than or equal to 100"),
        ({TABLE: {"Keys": [key("p", 1), key("p", 1)]}}, "contains duplicates"),
        ({TABLE: {"Keys": [{"pk": s("p")}]}}, "does not match the schema"),
        ({TABLE: {"Keys": [key("p", 1)], "AttributesToGet": ["a"]}}, "is unknown"),
        ({"elsewhere": {"Keys": [key("p", 1)]}}, "ResourceNotFoundException"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_batch_of_keys(dynamodb: DirectClient, items: Any, words: str) -> None:
    dynamodb.refused("BatchGetItem", words, RequestItems=items)


def test_parts_of_items(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, owner=s("a"), b=n(1))
    part = {
        "Keys": [key("p", 1)],
        "ProjectionExpression": "#owner",
        "ExpressionAttributeNames": {"#owner": "owner"},
    }
    assert dynamodb("BatchGetItem", RequestItems={TABLE: part})["Responses"] == {TABLE: [{"owner": s("a")}]}


def test_an_answer_of_16_megabytes_is_not_whole(dynamodb: DirectClient) -> None:
    for sk in range(50):
        dynamodb.put("p", sk, a=s("x" * 400_000))
    wanted: dict[str, Any] = {TABLE: {"Keys": [key("p", sk) for sk in range(50)], "ConsistentRead": True}}
    found: list[Item] = []
    while wanted:
        answer = dynamodb("BatchGetItem", RequestItems=wanted)
        assert 0 < sum(len(item["a"]["S"]) for item in answer["Responses"][TABLE]) <= 16 * 1024 * 1024
        found += answer["Responses"][TABLE]
        wanted = answer["UnprocessedKeys"]
        assert not wanted or wanted[TABLE]["ConsistentRead"]
    assert sorted(int(item["sk"]["N"]) for item in found) == list(range(50))
