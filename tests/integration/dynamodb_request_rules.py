"""What ministack takes and DynamoDB refuses, before it looks at any item.

Each rule is of DynamoDB's developer guide or its API reference. A request is what the SDK sends,
`{"TableName": …}`; a breach is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Any

from moto.dynamodb.exceptions import MockValidationException
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]

Request = Mapping[str, Any]

_MOST_OPERANDS = 100
_CONDITIONS = ("ConditionExpression", "FilterExpression")
_IN = re.compile(r"\bIN\s*\(([^)]*)\)")
_DIGIT_FIRST = re.compile(r"(?<![\w:#\[])\d\w*")
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\s")
_NO_KEY_CONDITION = re.compile(r"<>|\b(?:OR|NOT|IN)\b|\b(?!begins_with\b)[a-z_]+\s*\(")
_ACTIONS = {
    "Put": "Item",
    "Update": "UpdateExpression",
    "Delete": "Key",
    "ConditionCheck": "ConditionExpression",
}


def breaches(operation: str, request: Request) -> list[str]:
    """Why DynamoDB would refuse `request`, though ministack may not; empty where it would not."""
    match operation:
        case "BatchWriteItem":
            found = _batch_write_item(request)
        case "TransactWriteItems":
            found = _transact_write_items(request)
        case _:
            found = _expressions(request)
    return [f"{operation}: {breach}" for breach in found]


def _batch_write_item(request: Request) -> Iterator[str]:
    for writes in request["RequestItems"].values():
        for write in writes:
            if len(write) != 1:
                yield "a write is one PutRequest or one DeleteRequest"


def _transact_write_items(request: Request) -> Iterator[str]:
    if not request.get("ClientRequestToken", "none"):
        yield "a ClientRequestToken has 1 to 36 characters"
    for action in request["TransactItems"]:
        if len(action) != 1:
            yield "a TransactItem is one operation"
        for kind, body in action.items():
            if _ACTIONS[kind] not in body:
                yield f"{kind} has no {_ACTIONS[kind]}"
            yield from _expressions(body)


def _expressions(request: Request) -> Iterator[str]:
    for expression in (str(request[name]) for name in _CONDITIONS if name in request):
        if any(operands.count(",") >= _MOST_OPERANDS for operands in _IN.findall(expression)):
            yield f"IN takes up to {_MOST_OPERANDS} values"
        if _DIGIT_FIRST.search(expression):
            yield "an attribute's name that begins with a digit needs a placeholder"
    if _NO_KEY_CONDITION.search(str(request.get("KeyConditionExpression", ""))):
        yield "a key condition is made of =, <, <=, >, >=, BETWEEN and begins_with, joined by AND"
    if update := request.get("UpdateExpression"):
        yield from _update(update, tuple(request.get("ExpressionAttributeNames", {}).items()))


@lru_cache
def _update(expression: str, names: tuple[tuple[str, str], ...]) -> list[str]:
    try:
        UpdateExpressionParser.make(expression)
    except MockValidationException as error:
        return [error.message]
    found = []
    _, *parts = _CLAUSE.split(expression)
    clauses = list(zip(parts[::2], parts[1::2], strict=True))
    if len({clause for clause, _ in clauses}) < len(clauses):
        found.append("an update has each clause once")
    aliases, paths = dict(names), []
    for clause, actions in clauses:
        for action in re.split(r",(?![^(]*\))", actions):
            path = re.findall(r"[\w#]+", re.split(r"[=\s]", action.strip())[0])
            paths.append(tuple(aliases.get(part, part) for part in path))
            if clause in {"ADD", "DELETE"} and len(path) > 1:
                found.append(f"{clause} is for top-level attributes, not for {'.'.join(path)}")
    overlaps = (
        path for path, other in combinations(sorted(paths), 2) if other[: len(path)] == path
    )
    return found + [f"two document paths overlap at {'.'.join(path)}" for path in overlaps]
