"""Global secondary indexes: what they hold, and that they lag."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, key, n, s

ALL, KEYS_ONLY = "all-by-group", "keys_only-by-group"
OF_A = {"KeyConditionExpression": "grp = :g", "ExpressionAttributeValues": {":g": s("a")}}


def group(dynamodb: DirectClient, name: str = "a", index: str = KEYS_ONLY, **request: Any) -> list[dict[str, Any]]:
    """The items of a group, as an index has them."""
    parameters = OF_A | {"ExpressionAttributeValues": {":g": s(name)}}
    items: list[dict[str, Any]] = dynamodb("Query", TableName=TABLE, IndexName=index, **parameters, **request)["Items"]
    return items


def test_an_index_has_the_items_with_its_key_and_what_it_projects(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, grp=s("a"), colour=n(1))
    dynamodb.put("p", 2, colour=n(1))
    dynamodb.put("q", 1, grp=s("b"))
    assert group(dynamodb) == [key("p", 1) | {"grp": s("a")}]
    assert group(dynamodb, index=ALL) == [key("p", 1) | {"grp": s("a"), "colour": n(1)}]
    assert group(dynamodb, "b") == [key("q", 1) | {"grp": s("b")}]
    assert group(dynamodb, "c") == []


def test_an_index_follows_its_items(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, grp=s("a"))
    dynamodb.update("SET grp = :b, colour = :b", ExpressionAttributeValues={":b": s("b")})
    assert (group(dynamodb), len(group(dynamodb, "b"))) == ([], 1)
    assert group(dynamodb, "b", ALL)[0]["colour"] == s("b")
    dynamodb.update("REMOVE grp")
    assert group(dynamodb, "b") == []
    dynamodb.put("p", 1, grp=s("a"))
    dynamodb("DeleteItem", TableName=TABLE, Key=key("p", 1))
    assert group(dynamodb) == []
    dynamodb("TransactWriteItems", TransactItems=[{"Put": {"TableName": TABLE, "Item": key("p", 1) | {"grp": s("a")}}}])
    assert len(group(dynamodb)) == 1


def test_a_page_of_an_index_is_continued_with_both_keys(dynamodb: DirectClient) -> None:
    for sk in range(5):
        for pk in ("p", "q"):
            dynamodb.put(pk, sk, grp=s("a"))
    found: list[Item] = []
    start: dict[str, Item] = {}
    while True:
        page = dynamodb("Query", TableName=TABLE, IndexName=KEYS_ONLY, Limit=3, **OF_A, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        assert page["LastEvaluatedKey"].keys() == {"pk", "sk", "grp"}
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert sorted((item["pk"]["S"], item["sk"]["N"]) for item in found) == [
        (pk, str(sk)) for pk in ("p", "q") for sk in range(5)
    ]
    scanned = dynamodb("Scan", TableName=TABLE, IndexName=KEYS_ONLY)
    assert scanned["Count"] == 10
    refusal = {"IndexName": KEYS_ONLY, "ExclusiveStartKey": key("p", 1)}
    dynamodb.refused("Query", "The provided starting key is invalid", TableName=TABLE, **OF_A, **refusal)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"ConsistentRead": True}, "Consistent reads are not supported on global secondary indexes"),
        ({"Select": "ALL_ATTRIBUTES"}, "because its projection type is not ALL"),
        ({"ProjectionExpression": "pk, colour"}, "does not project ['colour']"),
        ({"FilterExpression": "colour = :g"}, "does not project ['colour']"),
        ({"FilterExpression": "grp = :g"}, "can only contain non-primary key attributes"),
    ],
)
def test_what_no_index_is_asked(dynamodb: DirectClient, parameters: dict[str, Any], words: str) -> None:
    dynamodb.refused("Query", words, TableName=TABLE, IndexName=KEYS_ONLY, **OF_A, **parameters)


def test_an_index_shows_a_write_so_much_later(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, grp=s("a"))
    dynamodb.inject(index_lag_ms=200)
    dynamodb.put("p", 2, grp=s("a"))
    dynamodb.update("SET grp = :b", ExpressionAttributeValues={":b": s("b")})
    assert dynamodb.query() == [1, 2]  # the table shows it at once
    assert [item["sk"] for item in group(dynamodb)] == [n(1)]
    dynamodb.now += 0.15
    dynamodb("DeleteItem", TableName=TABLE, Key=key("p", 2))
    assert ([item["sk"] for item in group(dynamodb)], group(dynamodb, "b")) == ([n(1)], [])
    dynamodb.now += 0.06
    assert [item["sk"] for item in group(dynamodb)] == [n(2)]
    assert [item["sk"] for item in group(dynamodb, "b")] == [n(1)]
    dynamodb.now += 0.15
    assert group(dynamodb) == []


def test_an_index_has_caught_up_when_the_lag_is_over(dynamodb: DirectClient) -> None:
    dynamodb.inject(index_lag_ms=60_000)
    dynamodb.put("p", 1, grp=s("a"))
    assert group(dynamodb) == []
    dynamodb.inject()
    assert len(group(dynamodb)) == 1
