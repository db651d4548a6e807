"""Conditions: which hold, and which are none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, Refused, key, n, s

ITEM = {
    "n": n(5),
    "s": s("banana"),
    "b": {"B": "AAEC"},
    "flag": {"BOOL": False},
    "nothing": {"NULL": True},
    "colours": {"SS": ["red", "green"]},
    "sizes": {"NS": ["1", "2"]},
    "list": {"L": [n(1), s("x"), {"M": {"deep": s("found")}}]},
    "m": {"M": {"x": n(1), "y z": s("space"), "colours": {"SS": ["a", "b"]}}},
}
VALUES = {
    ":4": n(4),
    ":5": n("5.0"),
    ":6": n(6),
    ":55": n(55),
    ":a": s("a"),
    ":banana": s("banana"),
    ":ban": s("ban"),
    ":nan": s("nan"),
    ":bytes": {"B": "AAEC"},
    ":first_bytes": {"B": "AAE="},
    ":true": {"BOOL": True},
    ":false": {"BOOL": False},
    ":null": {"NULL": True},
    ":red": s("red"),
    ":same_colours": {"SS": ["green", "red"]},
    ":same_m": {"M": {"colours": {"SS": ["b", "a"]}, "y z": s("space"), "x": n("1")}},
    ":other_m": {"M": {"colours": {"SS": ["b", "a"]}, "y z": s("space")}},
    ":same_list": {"L": [n(1), s("x"), {"M": {"deep": s("found")}}]},
    ":1": n(1),
    ":3": n(3),
    ":x": s("x"),
    ":found": s("found"),
    ":N": s("N"),
    ":S": s("S"),
    ":empty": s(""),
}
NAMES = {"#list": "list", "#y": "y z", "#size": "size", "#m": "m"}


def request(condition: str, **others: Any) -> dict[str, Any]:
    """A request with this condition, and those of the names and values that it uses."""
    words = set(re.findall(r"[#:]\w+", condition))
    names = {name: NAMES[name] for name in NAMES if name in words}
    values = {name: VALUES[name] for name in VALUES if name in words}
    return {
        "TableName": TABLE,
        "Key": key("p", 1),
        "ConditionExpression": condition,
        **({"ExpressionAttributeNames": names} if names else {}),
        **({"ExpressionAttributeValues": values} if values else {}),
        **others,
    }


def holds(dynamodb: DirectClient, condition: str) -> bool:
    """Whether a condition holds for `ITEM`."""
    dynamodb.put("p", 1, **ITEM)
    try:
        dynamodb("DeleteItem", **request(condition))
    except Refused as refused:
        if refused.code != "ConditionalCheckFailedException":
            raise
        return False
    return True


@pytest.mark.parametrize(
    "condition",
    [
        "n = :5",
        "n <> :4",
        "n < :6",
        "n < :55",  # as numbers, not as texts
        "n >= :5",
        ":4 < n",
        "n BETWEEN :4 AND :6",
        "n BETWEEN :5 AND :5",
        "n IN (:4, :a, :5)",
        "s = :banana",
        "s > :ban",
        "s > :empty",
        "begins_with(s, :ban)",
        "contains(s, :nan)",
        "b = :bytes",
        "b > :first_bytes",
        "begins_with(b, :first_bytes)",
        "contains(b, :first_bytes)",
        "flag = :false",
        "flag <> :true",
        "flag <> :5",
        "nothing = :null",
        "colours = :same_colours",
        "contains(colours, :red)",
        "contains(sizes, :1)",
        "m = :same_m",
        "m <> :other_m",
        "#list = :same_list",
        "contains(#list, :x)",
        "#list[0] = :1",
        "#list[2].deep = :found",
        "#list[ 1 ] = :x",
        "m.x = :1",
        "m.#y > :a",
        "#m.x = #list[0]",
        "attribute_exists(m.#y)",
        "attribute_not_exists(m.z)",
        "attribute_not_exists(#list[3])",
        "attribute_not_exists(s.x)",
        "attribute_not_exists(n[0])",
        "attribute_type(n, :N)",
        "attribute_type(s, :S)",
        "size(s) = :6",
        "size(b) = :3",
        "size(colours) < :3",
        "size(#list) = :3",
        "size(m) = :3",
        "gone <> :1",
        "NOT gone = :1",
        "NOT n = :4",
        "NOT (n = :4 OR s = :a)",
        "n = :4 AND s = :a OR flag = :false",  # AND binds more strongly
        "NOT n = :4 AND s = :banana",  # and NOT most of all
        "(n = :4 or n = :5) and not (s = :a)",
        "n=:5",
    ],
)
def test_what_holds(dynamodb: DirectClient, condition: str) -> None:
    assert holds(dynamodb, condition)
    dynamodb.put("p", 1)
    if "NOT" not in condition.upper() and "<>" not in condition:
        dynamodb.refused("DeleteItem", "The conditional request failed", **request(condition))


@pytest.mark.parametrize(
    "condition",
    [
        "n = :4",
        "n = :banana",
        "n < :banana",  # nothing is ordered between types
        "n > :banana",
        "s < :4",
        "gone = :1",
        "gone < :1",
        "gone BETWEEN :4 AND :6",
        "gone IN (:1, :4)",
        "begins_with(n, :ban)",
        "begins_with(gone, :ban)",
        "contains(n, :1)",
        "contains(s, :1)",
        "contains(colours, :1)",
        "contains(gone, :1)",
        "n BETWEEN :6 AND :55",
        "size(n) = :1",
        "size(flag) = :1",
        "size(gone) = :1",
        "attribute_type(gone, :N)",
        "attribute_type(s, :N)",
        "n = :4 AND (s = :banana OR flag = :false)",
        "gone = absent",
    ],
)
def test_what_does_not(dynamodb: DirectClient, condition: str) -> None:
    assert not holds(dynamodb, condition)
    assert holds(dynamodb, f"NOT ({condition})")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("", "can not be empty"),
        ("  ", "can not be empty"),
        ("n", 'Syntax error; token: "<EOF>"'),
        ("n =", "<EOF>"),
        ("n = :5 AND", "<EOF>"),
        ("n = :5 s", 'token: "s"'),
        ("n == :5", 'token: "="'),
        ("n ! :5", 'token: "!"'),
        ("n[x] = :5", "Syntax error"),
        ("5 = n", "Syntax error"),
        ("n IN ()", "Syntax error"),
        ("n IN :5", "Syntax error"),
        ("(n = :5", "Syntax error"),
        ("n = :5)", "Syntax error"),
        ("((n = :5))", "redundant parentheses"),
        ("NOT ((n = :5))", "redundant parentheses"),
        ("owner = :5", "Attribute name is a reserved keyword; reserved keyword: owner"),
        ("m.owner = :5", "reserved keyword: owner"),
        ("#missing = :5", "An expression attribute name used in the document path is not defined"),
        ("n = :missing", "An expression attribute value used in expression is not defined"),
        ("foo(n)", "Invalid function name; function: foo"),
        ("SIZE(n) = :5", "Invalid function name"),
        ("size(n)", "not allowed to be used this way in an expression; function: size"),
        ("n = attribute_exists(s)", "not allowed to be used this way in an expression; function: attribute_exists"),
        ("attribute_exists(:5)", "requires a document path"),
        ("attribute_exists(n, s)", "Incorrect number of operands"),
        ("begins_with(n)", "Incorrect number of operands"),
        ("begins_with(s, :5)", "Incorrect operand type for operator or function; operator or function: begins_with"),
        ("n < :true", "Incorrect operand type for operator or function; operator or function: <"),
        ("n BETWEEN :6 AND :4", "requires upper bound to be greater than or equal to lower bound"),
        ("n BETWEEN :4 AND :a", "requires same data type"),
        ("attribute_type(n, :a)", "Invalid attribute type name"),
        ("attribute_type(n, :5)", "Incorrect operand type"),
        ("n = n", "The first operand must be distinct"),
        ("contains(m.x, m.x)", "The first operand must be distinct"),
        ("n = :5 AND " * 400 + "n = :5", "4096 bytes"),
        ("(" * 2000 + "n = :5" + ")" * 2000, "nested too deeply"),
        (f"n IN ({', '.join([':5'] * 101)})", "at most 100"),
    ],
)
def test_what_is_refused(dynamodb: DirectClient, condition: str, words: str) -> None:
    refusal = dynamodb.refused("DeleteItem", words, **request(condition))
    assert refusal.code == "ValidationException"
    assert "Invalid ConditionExpression: " in refusal.body["message"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"ExpressionAttributeNames": {"#n": "n"}}, "ExpressionAttributeNames unused in expressions: keys: {#n}"),
        ({"ExpressionAttributeValues": {":5": n(5), ":6": n(6)}}, "unused in expressions: keys: {:6}"),
        ({"ExpressionAttributeNames": {}}, "must not be empty"),
        ({"ExpressionAttributeValues": {}}, "must not be empty"),
        ({"ExpressionAttributeNames": {"n": "n"}}, "contains invalid key"),
        ({"ExpressionAttributeValues": {"5": n(5)}}, "contains invalid key"),
        ({"ExpressionAttributeNames": {"#n": 5}}, "contains an invalid value"),
        ({"ExpressionAttributeValues": {":5": n("five")}}, "cannot be converted to a numeric value"),
        ({"ExpressionAttributeValues": {":5": {"SS": []}}}, "a set may not be empty"),
    ],
)
def test_names_and_values_are_used_and_make_sense(
    dynamodb: DirectClient, parameters: dict[str, Any], words: str
) -> None:
    assert dynamodb.refused("DeleteItem", words, **request("n = :5", **parameters)).code == "ValidationException"
    dynamodb.refused("GetItem", "unused", TableName=TABLE, Key=key("p", 1), ExpressionAttributeNames={"#n": "n"})


def test_an_expression_that_is_used_again_has_the_names_and_values_of_its_request(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, a=n(1), b=n(2))
    for name, value, expected in (("a", 1, True), ("b", 1, False), ("b", 2, True), ("a", 2, False)):
        found = dynamodb(
            "Scan",
            TableName=TABLE,
            FilterExpression="#x = :x",
            ExpressionAttributeNames={"#x": name},
            ExpressionAttributeValues={":x": n(value)},
        )
        assert bool(found["Count"]) == expected
