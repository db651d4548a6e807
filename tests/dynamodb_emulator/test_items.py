"""Items: what can be one, what comes back, and how they are read and replaced one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import Item, Value, item_size
from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, key, n, s


def nested(depth: int) -> Value:
    """A list in a list in a list …"""
    value: Value = {"L": []}
    for _ in range(depth - 1):
        value = {"L": [value]}
    return value


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"a": s("")},
        {"a": s("日本語 👩‍👩‍👧 \x00 \x7f")},
        {"ключ": s("a"), "with space": s("b"), "": s("c")},
        {"a": {"B": ""}, "b": {"B": "AAEC/w=="}},
        {"a": {"BOOL": True}, "b": {"BOOL": False}, "c": {"NULL": True}},
        {"a": {"SS": ["x", "y", ""]}, "b": {"NS": ["1", "-2.5"]}, "c": {"BS": ["AAEC"]}},
        {"a": {"L": []}, "b": {"M": {}}, "c": {"L": [{"M": {"x": {"L": [n(1)]}}}]}},
        {"a": nested(32)},
        {"a": s("x" * (400 * 1024 - 8))},  # pk, p, sk, the two bytes of its number, a
    ],
    ids=lambda attributes: str(attributes)[:40],
)
def test_what_is_put_comes_back(dynamodb: DirectClient, attributes: Item) -> None:
    dynamodb.put("p", 1, **attributes)
    assert dynamodb.get("p", 1) == key("p", 1) | attributes


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.0", "0"),
        ("007", "7"),
        ("+7", "7"),
        ("1.50", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("100", "100"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("-12e-1", "-1.2"),
        ("1" + "0" * 125, "1" + "0" * 125),
        ("1e-130", "0." + "0" * 129 + "1"),
        ("1" * 38, "1" * 38),
        ("1800000000.123", "1800000000.123"),
    ],
)
def test_numbers_have_one_spelling(dynamodb: DirectClient, given: str, kept: str) -> None:
    dynamodb.put("p", 1, a=n(given), b={"L": [{"M": {"x": n(given)}}]}, c={"NS": [given]})
    expected = {"a": n(kept), "b": {"L": [{"M": {"x": n(kept)}}]}, "c": {"NS": [kept]}}
    assert dynamodb.get("p", 1) == key("p", 1) | expected


def test_keys_are_numbers_and_not_their_spelling(dynamodb: DirectClient) -> None:
    dynamodb("PutItem", TableName=TABLE, Item={"pk": s("p"), "sk": n("1.0"), "a": n(1)})
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(1)}
    assert dynamodb("GetItem", TableName=TABLE, Key={"pk": s("p"), "sk": n("10e-1")})["Item"]["a"] == n(1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "exactly one of the supported datatypes"),
        ({"S": "a", "N": "1"}, "exactly one of the supported datatypes"),
        ({"X": "a"}, "exactly one of the supported datatypes"),
        ({"S": 5}, "SerializationException"),
        ({"N": 5}, "SerializationException"),
        ({"BOOL": "true"}, "SerializationException"),
        ({"L": {}}, "SerializationException"),
        ({"SS": [1]}, "SerializationException"),
        ("a", "exactly one of the supported datatypes"),
        ({"N": ""}, "cannot be converted to a numeric value"),
        ({"N": "nan"}, "cannot be converted to a numeric value"),
        ({"N": "1_000"}, "cannot be converted to a numeric value"),
        ({"N": "1" * 39}, "more than 38 significant digits"),
        ({"N": "1e126"}, "Number overflow"),
        ({"N": "1e-131"}, "Number underflow"),
        ({"NULL": False}, "must have the value of true"),
        ({"SS": []}, "may not be empty"),
        ({"SS": ["a", "a"]}, "contains duplicates"),
        ({"NS": ["1", "1.0"]}, "contains duplicates"),
        ({"B": "a"}, "Invalid Base64"),
        ({"B": "AB=="}, "Base64"),
        (nested(34), "Nesting Levels"),
        ({"M": {"x": {"L": [{"N": "x"}]}}}, "cannot be converted to a numeric value"),
        ({"S": "x" * (400 * 1024 - 7)}, "Item size has exceeded the maximum allowed size"),
        ({"S": "é" * (200 * 1024)}, "Item size has exceeded"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_value(dynamodb: DirectClient, value: Any, words: str) -> None:
    dynamodb.refused("PutItem", words, TableName=TABLE, Item=key("p", 1) | {"a": value})
    assert dynamodb.get("p", 1) is None


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"pk": s("p")}, "Missing the key sk in the item"),
        ({"sk": n(1)}, "Missing the key pk in the item"),
        ({"pk": n(1), "sk": n(1)}, "Type mismatch for key pk expected: S actual: N"),
        ({"pk": s(""), "sk": n(1)}, "cannot contain an empty string value"),
        ({"pk": s("é" * 1025), "sk": n(1)}, "exceeded the maximum size limit of 2048 bytes"),
        ({"pk": s("p"), "sk": n(1), "grp": n(1)}, "Type mismatch for Index Key grp Expected: S Actual: N"),
        ({"pk": s("p"), "sk": n(1), "grp": s("")}, "cannot contain an empty string value"),
    ],
    ids=lambda item: str(item)[:40],
)
def test_what_is_no_item_of_the_table(dynamodb: DirectClient, item: Item, words: str) -> None:
    assert dynamodb.refused("PutItem", words, TableName=TABLE, Item=item).code == "ValidationException"


@pytest.mark.parametrize("operation", ["GetItem", "DeleteItem", "UpdateItem"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"pk": s("p")}, "does not match the schema"),
        ({"pk": s("p"), "sk": s("1")}, "does not match the schema"),
        ({"pk": s("p"), "other": n(1)}, "does not match the schema"),
        (key("p", 1) | {"a": n(1)}, "does not match the schema"),
        ({"pk": s(""), "sk": n(1)}, "cannot contain an empty string value"),
        ({"pk": "p", "sk": n(1)}, "does not match the schema"),
    ],
    ids=str,
)
def test_what_is_no_key(dynamodb: DirectClient, operation: str, wrong: Item, words: str) -> None:
    assert dynamodb.refused(operation, words, TableName=TABLE, Key=wrong).code == "ValidationException"


def test_what_put_and_delete_return(dynamodb: DirectClient) -> None:
    old, new = key("p", 1) | {"a": n(1)}, key("p", 1) | {"a": n(2)}
    for answer in ({}, {"Attributes": old}):
        assert dynamodb("PutItem", TableName=TABLE, Item=old, ReturnValues="ALL_OLD") == answer
    assert dynamodb("PutItem", TableName=TABLE, Item=new) == {}
    for answer in ({"Attributes": new}, {}):
        assert dynamodb("DeleteItem", TableName=TABLE, Key=key("p", 1), ReturnValues="ALL_OLD") == answer
    dynamodb.refused("PutItem", "enum value set", TableName=TABLE, Item=new, ReturnValues="ALL_NEW")


def test_a_part_of_an_item(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, a=n(1), m={"M": {"x": n(1), "y": {"L": [n(1), s("b"), {"M": {"z": n(3), "w": n(4)}}]}}})

    def part(expression: str, **others: Any) -> Any:
        return dynamodb("GetItem", TableName=TABLE, Key=key("p", 1), ProjectionExpression=expression, **others)["Item"]

    assert part("a, pk") == {"a": n(1), "pk": s("p")}
    assert part("m.y[2].z, m.y[0]") == {"m": {"M": {"y": {"L": [n(1), {"M": {"z": n(3)}}]}}}}
    assert part("m.gone, #m.y[9], a.b, gone", ExpressionAttributeNames={"#m": "m"}) == {}
    for expression, words in (
        ("a, a", "overlap"),
        ("m, m.x", "overlap"),
        ("owner", "reserved keyword"),
        ("a,", "<EOF>"),
        ("pk.x", "Key attributes must be scalars"),
    ):
        dynamodb.refused("GetItem", words, TableName=TABLE, Key=key("p", 1), ProjectionExpression=expression)


@pytest.mark.parametrize(
    ("operation", "request_", "words"),
    [
        ("GetItem", {"TableName": "elsewhere", "Key": key("p", 1)}, "ResourceNotFoundException"),
        ("GetItem", {"Key": key("p", 1)}, "Value null at 'tableName' failed to satisfy constraint"),
        ("GetItem", {"TableName": TABLE, "Key": key("p", 1), "AttributesToGet": ["a"]}, "AttributesToGet is unknown"),
        ("GetItem", {"TableName": TABLE, "Key": key("p", 1), "ConsistentRead": "true"}, "SerializationException"),
        ("PutItem", {"TableName": TABLE, "Item": key("p", 1), "Expected": {}}, "Expected is unknown"),
        ("PutItem", {"TableName": 5, "Item": key("p", 1)}, "SerializationException"),
        ("PutItem", {"TableName": TABLE, "Item": []}, "SerializationException"),
        ("PutItem", {"TableName": TABLE, "Item": key("p", 1), "ReturnConsumedCapacity": "TOTAL"}, "enum value set"),
        ("ExecuteStatement", {"Statement": "SELECT 1"}, "UnknownOperationException"),
    ],
)
def test_what_is_not_understood_is_refused(
    dynamodb: DirectClient, operation: str, request_: dict[str, Any], words: str
) -> None:
    dynamodb.refused(operation, words, **request_)


def test_the_size_of_an_item() -> None:
    # From the developer guide's page on item sizes: names and texts by their bytes, two digits of a number to a byte.
    assert item_size({"name": s("é")}) == 4 + 2
    assert item_size({"a": n(12345)}) == 1 + 4
    assert item_size({"a": n("-1.5")}) == 1 + 3
    assert item_size({"flag": {"BOOL": True}}) == 5
    assert item_size({"m": {"M": {"k": s("vv")}}}) == 1 + 3 + 1 + 1 + 2
    assert item_size({"l": {"L": [n(1), s("ab")]}}) == 1 + 3 + 1 + 2 + 1 + 2
