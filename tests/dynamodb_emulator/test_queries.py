"""Query and Scan: what they find, in which order, and on how many pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, key, n, s

PAGE_BYTES = 1024 * 1024


def values_of(condition: str, values: Item) -> Item:
    """Those of the values that a condition uses."""
    used = set(re.findall(r":\w+", condition))
    return {name: value for name, value in values.items() if name in used}


@pytest.fixture
def filled(dynamodb: DirectClient) -> DirectClient:
    """With the sort keys -10, 0, 1, 2, 10, 20 in "p", and others' items."""
    for sk in (10, 2, -10, 20, 1, 0):
        dynamodb.put("p", sk, a=n(sk % 2))
    for pk in ("", "o", "pp", "q"):
        dynamodb.put(f"x{pk}", 5)
    return dynamodb


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("pk = :p", [-10, 0, 1, 2, 10, 20]),
        (":p = pk", [-10, 0, 1, 2, 10, 20]),
        ("(pk = :p)", [-10, 0, 1, 2, 10, 20]),
        ("pk = :p AND sk = :x", [2]),
        ("pk = :p AND sk < :x", [-10, 0, 1]),
        ("pk = :p AND sk <= :x", [-10, 0, 1, 2]),
        ("pk = :p AND sk > :x", [10, 20]),
        ("pk = :p AND sk >= :x", [2, 10, 20]),
        ("sk >= :x AND pk = :p", [2, 10, 20]),
        ("pk = :p AND :x < sk", [10, 20]),
        ("pk = :p AND :x >= sk", [-10, 0, 1, 2]),
        ("pk = :p AND sk BETWEEN :x AND :y", [2, 10]),
        ("pk = :p AND sk BETWEEN :x AND :x", [2]),
        ("pk = :gone AND sk > :x", []),
    ],
)
def test_what_a_query_finds(filled: DirectClient, condition: str, found: list[int]) -> None:
    used = values_of(condition, {":p": s("p"), ":x": n(2), ":y": n(11), ":gone": s("gone")})
    assert filled.query(condition, ExpressionAttributeValues=used) == found
    backward = filled.query(condition, ExpressionAttributeValues=used, ScanIndexForward=False)
    assert backward == found[::-1]


def test_texts_are_ordered_by_their_code_points(dynamodb: DirectClient) -> None:
    dynamodb(
        "CreateTable",
        TableName="texts",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )
    texts = ["00000009", "00000010", "00000010#1", "00000010#10", "10", "2", "B", "a", "~head", "é", "日", "😀"]
    for text in reversed(texts):
        dynamodb("PutItem", TableName="texts", Item={"pk": s("p"), "sk": s(text)})

    def found(condition: str, *values: str) -> list[str]:
        numbered = {f":{number}": s(value) for number, value in enumerate(values)}
        answer = dynamodb(
            "Query",
            TableName="texts",
            KeyConditionExpression=f"pk = :p{condition}",
            ExpressionAttributeValues={":p": s("p"), **numbered},
        )
        return [item["sk"]["S"] for item in answer["Items"]]

    assert found("") == texts
    assert found(" AND sk BETWEEN :0 AND :1", "00000010", "~head") == texts[1:9]
    assert found(" AND begins_with(sk, :0)", "00000010") == texts[1:4]
    assert found(" AND begins_with(sk, :0)", "0000001") == texts[1:4]
    assert found(" AND begins_with(sk, :0)", "00000010#10#") == []
    assert found(" AND begins_with(sk, :0)", "😀") == ["😀"]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("sk = :x", "Query condition missed key schema element: pk"),
        ("pk > :p", "Query key condition not supported"),
        ("pk = :p AND a = :x", "Query key condition not supported"),
        ("pk = :p AND sk > :x AND sk < :x", "only contain one condition per key"),
        ("pk = :p AND sk = :p", "Condition parameter type does not match schema type"),
        ("pk = :x", "Condition parameter type does not match schema type"),
        ("pk = :p OR sk = :x", "Invalid KeyConditionExpression"),
        ("pk = :p AND NOT sk = :x", "Invalid KeyConditionExpression"),
        ("pk = :p AND sk <> :x", "Invalid KeyConditionExpression"),
        ("pk = :p AND sk IN (:x)", "Invalid KeyConditionExpression"),
        ("pk = :p AND size(sk) = :x", "Invalid KeyConditionExpression"),
        ("pk = :p AND contains(sk, :p)", "Invalid KeyConditionExpression"),
        ("pk = :p AND attribute_exists(sk)", "Invalid KeyConditionExpression"),
        ("pk = :p AND sk = pk", "Invalid KeyConditionExpression"),
        ("pk = :p AND sk.x = :x", "nested attributes"),
        ("pk = :p AND begins_with(sk, :x)", "Incorrect operand type"),
        ("pk = :p AND sk BETWEEN :x AND :y", "upper bound"),
        ("pk = :empty", "cannot contain an empty string value"),
    ],
)
def test_what_is_no_key_condition(dynamodb: DirectClient, condition: str, words: str) -> None:
    used = values_of(condition, {":p": s("p"), ":x": n(2), ":y": n(1), ":empty": s("")})
    refusal = dynamodb.refused(
        "Query", words, TableName=TABLE, KeyConditionExpression=condition, ExpressionAttributeValues=used
    )
    assert refusal.code == "ValidationException"


def pages(dynamodb: DirectClient, operation: str, **request: Any) -> list[dict[str, Any]]:
    """All pages of a query or a scan."""
    found = [dynamodb(operation, TableName=TABLE, **request)]
    while "LastEvaluatedKey" in found[-1]:
        start = found[-1]["LastEvaluatedKey"]
        found.append(dynamodb(operation, TableName=TABLE, ExclusiveStartKey=start, **request))
    return found


OF_P = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": s("p")}}


@pytest.mark.parametrize("forward", [True, False])
def test_pages_of_so_many_items(filled: DirectClient, forward: bool) -> None:
    found = pages(filled, "Query", Limit=4, ScanIndexForward=forward, **OF_P)
    keys = [[int(item["sk"]["N"]) for item in page["Items"]] for page in found]
    expected = [[-10, 0, 1, 2], [10, 20]] if forward else [[20, 10, 2, 1], [0, -10]]
    assert keys == expected
    assert found[0]["LastEvaluatedKey"] == key("p", expected[0][-1])
    # Whether the limit's last item is the last of all, DynamoDB finds out on the next page only.
    assert [page["Count"] for page in pages(filled, "Query", Limit=3, **OF_P)] == [3, 3, 0]


def test_a_filter_is_applied_to_what_a_page_has_read(filled: DirectClient) -> None:
    filtered: dict[str, Any] = OF_P | {
        "FilterExpression": "a = :one",
        "ExpressionAttributeValues": {":p": s("p"), ":one": n(1)},
    }
    found = pages(filled, "Query", Limit=2, **filtered)
    assert [(page["Count"], page["ScannedCount"]) for page in found] == [(0, 2), (1, 2), (0, 2), (0, 0)]
    counted = filled("Query", TableName=TABLE, Select="COUNT", **filtered)
    assert counted == {"Count": 1, "ScannedCount": 6}


def test_pages_of_a_megabyte(dynamodb: DirectClient) -> None:
    for sk in range(8):
        dynamodb.put("p", sk, a=s("x" * (PAGE_BYTES // 4 - 8)))  # a quarter, but for one or two bytes
    found = pages(dynamodb, "Query", **OF_P)
    assert [len(page["Items"]) for page in found] == [5, 3]
    assert [int(item["sk"]["N"]) for page in found for item in page["Items"]] == list(range(8))
    # The size is that of the items, not of what is asked of them.
    assert [page["Count"] for page in pages(dynamodb, "Query", ProjectionExpression="sk", **OF_P)] == [5, 3]
    assert sum(page["Count"] for page in pages(dynamodb, "Scan")) == 8
    assert len(pages(dynamodb, "Scan")) == 2


def test_a_page_goes_on_behind_a_key_that_is_gone(filled: DirectClient) -> None:
    filled("DeleteItem", TableName=TABLE, Key=key("p", 1))
    assert filled.query(ExclusiveStartKey=key("p", 1)) == [2, 10, 20]
    assert filled.query(ExclusiveStartKey=key("p", 1), ScanIndexForward=False) == [0, -10]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"pk": s("p")}, "The provided starting key is invalid"),
        (key("p", 1) | {"a": n(1)}, "The provided starting key is invalid"),
        ({"pk": s("p"), "sk": s("1")}, "The provided starting key is invalid"),
        (key("q", 5), "outside query boundaries"),
        (key("p", 2), "outside query boundaries"),
    ],
    ids=str,
)
def test_what_no_page_begins_with(filled: DirectClient, start: dict[str, Any], words: str) -> None:
    values = {":p": s("p"), ":x": n(5)}
    condition = "pk = :p AND sk > :x"
    request = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values, "ExclusiveStartKey": start}
    assert filled.refused("Query", words, TableName=TABLE, **request).code == "ValidationException"


def test_a_part_of_each_item(filled: DirectClient) -> None:
    answer = filled("Query", TableName=TABLE, ProjectionExpression="a", Limit=1, **OF_P)
    assert answer["Items"] == [{"a": n(0)}]
    assert answer["LastEvaluatedKey"] == key("p", -10)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"Limit": 0}, "greater than or equal to 1"),
        ({"FilterExpression": "sk = :p"}, "can only contain non-primary key attributes: Primary key attribute: sk"),
        ({"Select": "ALL"}, "enum value set"),
        ({"Select": "SPECIFIC_ATTRIBUTES"}, "Must specify"),
        ({"Select": "ALL_PROJECTED_ATTRIBUTES"}, "only when Querying using an IndexName"),
        ({"Select": "COUNT", "ProjectionExpression": "a"}, "Cannot specify the ProjectionExpression"),
        ({"IndexName": "gone"}, "The table does not have the specified index: gone"),
        ({"QueryFilter": {}}, "QueryFilter is unknown"),
    ],
)
def test_what_no_query_asks(filled: DirectClient, parameters: dict[str, Any], words: str) -> None:
    filled.refused("Query", words, TableName=TABLE, **OF_P, **parameters)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_scan_finds_everything_once(filled: DirectClient, limit: int) -> None:
    found = [item for page in pages(filled, "Scan", Limit=limit) for item in page["Items"]]
    keys = sorted((item["pk"]["S"], int(item["sk"]["N"])) for item in found)
    assert keys == [*(("p", sk) for sk in (-10, 0, 1, 2, 10, 20)), *((f"x{pk}", 5) for pk in ("", "o", "pp", "q"))]


def test_a_scan_that_goes_on_among_writes_misses_nothing_that_was_there(filled: DirectClient) -> None:
    before = {(item["pk"]["S"], item["sk"]["N"]) for item in filled("Scan", TableName=TABLE)["Items"]}
    seen: list[tuple[str, str]] = []
    start: dict[str, Item] = {}
    for number in range(100):
        page = filled("Scan", TableName=TABLE, Limit=1, **start)
        seen += [(item["pk"]["S"], item["sk"]["N"]) for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        filled.put(f"new {number}", 1)
        filled("DeleteItem", TableName=TABLE, Key=page["LastEvaluatedKey"])
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


def test_a_scan_may_filter_by_keys(filled: DirectClient) -> None:
    values = {":p": s("p"), ":x": n(1)}
    answer = filled("Scan", TableName=TABLE, FilterExpression="pk = :p AND sk > :x", ExpressionAttributeValues=values)
    assert {int(item["sk"]["N"]) for item in answer["Items"]} == {2, 10, 20}
