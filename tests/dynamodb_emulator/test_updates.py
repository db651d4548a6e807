"""UpdateItem: what becomes of an item, and which updates are none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, key, n, s

VALUES = {
    ":1": n(1),
    ":2": n(2),
    ":half": n("0.5"),
    ":x": s("x"),
    ":y": s("y"),
    ":m": {"M": {"a": n(1)}},
    ":list": {"L": [s("x")]},
    ":set": {"SS": ["red", "blue"]},
    ":numbers": {"NS": ["1"]},
}
NAMES = {"#epoch": "2", "#owner": "owner"}


def request(expression: str) -> dict[str, Any]:
    """The parameters of a request with this expression."""
    values = {name: value for name, value in VALUES.items() if name in expression}
    names = {name: meaning for name, meaning in NAMES.items() if name in expression}
    return {
        **({"ExpressionAttributeValues": values} if values else {}),
        **({"ExpressionAttributeNames": names} if names else {}),
    }


def update(dynamodb: DirectClient, expression: str, **others: Any) -> Item:
    """Update the item ("p", 1); returns what of it is no key."""
    item = dynamodb.update(expression, **request(expression), **others)
    return {name: value for name, value in item.items() if name not in {"pk", "sk"}}


@pytest.mark.parametrize(
    ("before", "expression", "after"),
    [
        ({}, "SET a = :1", {"a": n(1)}),
        ({"a": n(5)}, "SET a = :x, #owner = :y", {"a": s("x"), "owner": s("y")}),
        ({"a": n(5)}, "set a = a + :1", {"a": n(6)}),
        ({"a": n(5)}, "SET a = a - :half", {"a": n("4.5")}),
        ({"a": n("0.5")}, "SET a = :half + a", {"a": n(1)}),
        ({"a": n(5)}, "SET a = b, b = a", None),
        ({"a": n(5), "b": n(6)}, "SET a = b, b = a", {"a": n(6), "b": n(5)}),  # of the item as it was
        ({}, "SET a = if_not_exists(a, :1)", {"a": n(1)}),
        ({"a": n(5)}, "SET a = if_not_exists(a, :1)", {"a": n(5)}),
        ({}, "SET a = if_not_exists(a, :1) + :2", {"a": n(3)}),
        ({"a": {"L": [n(1)]}}, "SET a = list_append(a, :list)", {"a": {"L": [n(1), s("x")]}}),
        ({"a": {"L": [n(1)]}}, "SET a = list_append(:list, a)", {"a": {"L": [s("x"), n(1)]}}),
        ({}, "SET a = list_append(if_not_exists(a, :list), :list)", {"a": {"L": [s("x"), s("x")]}}),
        ({"starts": {"M": {"1": n(0)}}}, "SET starts.#epoch = :x", {"starts": {"M": {"1": n(0), "2": s("x")}}}),
        (
            {"m": {"M": {"a": {"M": {}}}}},
            "SET m.a.b = :1, m.c = :2",
            {"m": {"M": {"a": {"M": {"b": n(1)}}, "c": n(2)}}},
        ),
        ({"a": {"L": [n(1), n(2)]}}, "SET a[0] = :x", {"a": {"L": [s("x"), n(2)]}}),
        ({"a": {"L": [n(1)]}}, "SET a[9] = :y, a[5] = :x", {"a": {"L": [n(1), s("x"), s("y")]}}),
        ({"a": {"L": [{"M": {}}]}}, "SET a[0].b = :1", {"a": {"L": [{"M": {"b": n(1)}}]}}),
        ({"a": n(5)}, "REMOVE a", {}),
        ({"a": n(5)}, "REMOVE b", {"a": n(5)}),
        ({}, "REMOVE b", {}),
        ({"a": {"L": [n(0), n(1), n(2)]}}, "REMOVE a[0], a[2]", {"a": {"L": [n(1)]}}),
        ({"a": {"L": [n(0), n(1)]}}, "REMOVE a[5]", {"a": {"L": [n(0), n(1)]}}),
        ({"a": {"L": [n(0), n(1)]}}, "SET a[1] = :x REMOVE a[0]", {"a": {"L": [s("x")]}}),
        ({"m": {"M": {"a": n(1), "b": n(2)}}}, "REMOVE m.a", {"m": {"M": {"b": n(2)}}}),
        ({}, "ADD a :1", {"a": n(1)}),
        ({"a": n("1.5")}, "ADD a :half", {"a": n(2)}),
        ({"m": {"M": {"a": n(1)}}}, "ADD m.a :2", {"m": {"M": {"a": n(3)}}}),
        ({}, "ADD a :set", {"a": {"SS": ["red", "blue"]}}),
        ({"a": {"SS": ["red", "green"]}}, "ADD a :set", {"a": {"SS": ["red", "green", "blue"]}}),
        ({"a": {"SS": ["red", "green"]}}, "DELETE a :set", {"a": {"SS": ["green"]}}),
        ({"a": {"SS": ["red"]}}, "DELETE a :set", {}),
        ({}, "DELETE a :set", {}),
        ({"a": n(1), "b": n(2)}, "ADD a :1 REMOVE b SET c = :x", {"a": n(2), "c": s("x")}),
        ({"a": n("123456789012345678901234567890")}, "ADD a :1", {"a": n("123456789012345678901234567891")}),
    ],
)
def test_what_becomes_of_an_item(dynamodb: DirectClient, before: Item, expression: str, after: Item | None) -> None:
    dynamodb.put("p", 1, **before)
    if after is None:
        dynamodb.refused("UpdateItem", "does not exist in the item", **whole(expression))
        after = before
    else:
        assert update(dynamodb, expression) == after
    assert dynamodb.get("p", 1) == key("p", 1) | after


def whole(expression: str) -> dict[str, Any]:
    """A request with this expression."""
    return {"TableName": TABLE, "Key": key("p", 1), "UpdateExpression": expression, **request(expression)}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "can not be empty"),
        ("SET", "<EOF>"),
        ("SET a", "<EOF>"),
        ("SET a = ", "<EOF>"),
        ("SET a = :1,", "<EOF>"),
        ("SET a = :1 b = :2", "Syntax error"),
        ("PUT a = :1", 'token: "PUT"'),
        ("ADD a = :1", "Syntax error"),
        ("ADD a b", "Syntax error"),
        ("SET a = :1 SET b = :2", 'The "SET" section can only be used once'),
        ("SET owner = :1", "reserved keyword: owner"),
        ("SET a = foo(:1)", "Invalid function name; function: foo"),
        ("SET a = if_not_exists(a)", "Incorrect number of operands"),
        ("SET a = if_not_exists(:1, :2)", "requires a document path"),
        ("SET a = list_append(a, :1)", "operator or function: list_append, operand type: N"),
        ("SET a = a + :x", "operator or function: +, operand type: S"),
        ("ADD a :x", "operand type: S"),
        ("DELETE a :1", "operand type: N"),
        ("SET a = :1 REMOVE a", "Two document paths overlap"),
        ("SET a = :1, a.b = :2", "Two document paths overlap"),
        ("SET a.b = :1, a[0] = :2", "Two document paths conflict"),
        ("REMOVE a[1], a[1]", "Two document paths overlap"),
    ],
)
def test_what_is_no_update(dynamodb: DirectClient, expression: str, words: str) -> None:
    refusal = dynamodb.refused("UpdateItem", words, **whole(expression))
    assert refusal.code == "ValidationException"
    assert "Invalid UpdateExpression: " in refusal.body["message"]
    assert dynamodb.get("p", 1) is None


@pytest.mark.parametrize(
    ("before", "expression", "words"),
    [
        ({}, "SET pk = :x", "Cannot update attribute pk. This attribute is part of the key"),
        ({}, "REMOVE sk", "Cannot update attribute sk"),
        ({}, "SET grp = :1", "Type mismatch for Index Key grp Expected: S Actual: N"),
        ({}, "SET a.b = :1", "The document path provided in the update expression is invalid for update"),
        ({}, "REMOVE a.b", "document path"),
        ({"a": n(1)}, "SET a.b = :1", "document path"),
        ({"a": n(1)}, "SET a[0] = :1", "document path"),
        ({"a": {"SS": ["x"]}}, "SET a[0] = :1", "document path"),
        ({"a": {"L": []}}, "SET a.b = :1", "document path"),
        ({}, "SET a = b", "does not exist in the item"),
        ({}, "SET a = a + :1", "does not exist in the item"),
        ({"a": s("x")}, "SET a = a + :1", "incorrect data type"),
        ({"a": s("x")}, "SET a = list_append(a, :list)", "incorrect data type"),
        ({"a": s("x")}, "ADD a :1", "incorrect data type"),
        ({"a": {"SS": ["x"]}}, "ADD a :numbers", "incorrect data type"),
        ({"a": n(1)}, "DELETE a :set", "incorrect data type"),
        ({"a": n("9" * 38)}, "ADD a :half", "more than 38 significant digits"),
        ({"a": s("x" * 409_590)}, "SET b = :list", "Item size has exceeded"),
    ],
)
def test_an_update_that_does_not_fit_the_item_changes_nothing(
    dynamodb: DirectClient, before: Item, expression: str, words: str
) -> None:
    dynamodb.put("p", 1, **before)
    assert dynamodb.refused("UpdateItem", words, **whole(expression)).code == "ValidationException"
    assert dynamodb.get("p", 1) == key("p", 1) | before


def test_an_update_makes_the_item_that_is_not_there(dynamodb: DirectClient) -> None:
    dynamodb("UpdateItem", TableName=TABLE, Key=key("p", 1))
    assert dynamodb.get("p", 1) == key("p", 1)


def test_what_an_update_returns(dynamodb: DirectClient) -> None:
    before = {"a": n(1), "m": {"M": {"x": n(1), "y": n(2)}}, "l": {"L": [n(1), n(2), n(3)]}}
    expression = "SET a = :2, m.x = :2, b = :x, l[2] = :2 REMOVE m.y"
    expected = {
        "NONE": {},
        "ALL_OLD": before,
        "UPDATED_OLD": {"a": n(1), "m": before["m"], "l": {"L": [n(3)]}},
        "ALL_NEW": {"a": n(2), "b": s("x"), "m": {"M": {"x": n(2)}}, "l": {"L": [n(1), n(2), n(2)]}},
        "UPDATED_NEW": {"a": n(2), "b": s("x"), "m": {"M": {"x": n(2)}}, "l": {"L": [n(2)]}},
    }
    for returned, attributes in expected.items():
        dynamodb.put("p", 1, **before)
        assert update(dynamodb, expression, ReturnValues=returned) == attributes, returned
    for returned in ("ALL_OLD", "UPDATED_OLD"):
        dynamodb("DeleteItem", TableName=TABLE, Key=key("p", 1))
        assert update(dynamodb, "SET a = :1", ReturnValues=returned) == {}
    dynamodb.refused("UpdateItem", "enum value set", **whole("SET a = :1"), ReturnValues="NEW")


def test_a_condition_that_fails_shows_the_item_where_that_is_asked_for(dynamodb: DirectClient) -> None:
    conditional = whole("SET a = :1") | {"ConditionExpression": "attribute_not_exists(pk)"}
    shown = conditional | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    dynamodb("UpdateItem", **shown)
    refusal = dynamodb.refused("UpdateItem", "The conditional request failed", **shown)
    assert refusal.code == "ConditionalCheckFailedException"
    assert refusal.body["Item"] == key("p", 1) | {"a": n(1)}
    assert "Item" not in dynamodb.refused("UpdateItem", "conditional", **conditional).body
    absent = shown | {"ConditionExpression": "attribute_exists(pk)", "Key": key("p", 2)}
    assert "Item" not in dynamodb.refused("UpdateItem", "conditional", **absent).body
