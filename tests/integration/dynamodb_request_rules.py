"""What DynamoDB refuses and the emulator takes: the rules of its requests, from its developer guide.

A request is what the SDK sends, `{"TableName": …}`; a breach is a sentence. The pages: "Reserved words", "Using expressions",
"Constraints", "Quotas", and the API reference of each operation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from stream_aws.tables import LEDGER, RESPONSES, SESSIONS, UNFINISHED_INDEX, UNFINISHED_KEY, TableKeys

Request = Mapping[str, Any]

RESERVED_WORDS = frozenset(ReservedKeywords.get_reserved_keywords())
"""AWS's list of 573 words, as the emulator's package carries it."""

LARGEST_ITEM = 400 * 1024
LARGEST_BATCH = 16 * 1024 * 1024
LARGEST_TRANSACTION = 4 * 1024 * 1024
_LARGEST_EXPRESSION = 4096
_LONGEST_KEYS = (2048, 1024)
_MOST_DIGITS = 38
_MOST_OPERANDS = 100
_EXPRESSIONS = (
    "UpdateExpression",
    "ConditionExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)
_CLAUSES = frozenset({"SET", "REMOVE", "ADD", "DELETE"})
_OPERATORS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
_TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"})
_PYTHON_TYPES: dict[str, type] = {"S": str, "N": str, "BOOL": bool, "M": dict, "L": list}
_TOKEN = re.compile(r"[#:]?\w+|\[\d+\]|[^\s\w]")
_IN = re.compile(r"\bIN\s*\(([^)]*)\)")
_KEYS = {"sessions": SESSIONS, "ledger": LEDGER, "responses": RESPONSES}
_INDEXES = {("responses", UNFINISHED_INDEX): TableKeys(UNFINISHED_KEY, None)}


def breaches(operation: str, request: Request) -> list[str]:
    """Why DynamoDB would refuse `request` before it looks at any item; empty where it would not."""
    checks = {
        "GetItem": _get_item,
        "PutItem": _put,
        "DeleteItem": _delete,
        "UpdateItem": _update,
        "Query": _query,
        "BatchWriteItem": _batch_write_item,
        "TransactWriteItems": _transact_write_items,
    }
    return [f"{operation}: {breach}" for breach in checks[operation](request)] if operation in checks else []


def item_size(item: Mapping[str, Any]) -> int:
    """Bytes of an item as DynamoDB counts them (numbers roughly)."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


# -- operations --------------------------------------------------------------------------------------------------


def _get_item(request: Request) -> Iterator[str]:
    yield from _key(request["TableName"], request["Key"])
    yield from _expressions(request)


def _put(request: Request) -> Iterator[str]:
    yield from _item(request["TableName"], request["Item"])
    yield from _expressions(request)
    if request.get("ReturnValues", "NONE") not in {"NONE", "ALL_OLD"}:
        yield "ReturnValues of a put is NONE or ALL_OLD"


def _delete(request: Request) -> Iterator[str]:
    yield from _key(request["TableName"], request["Key"])
    yield from _expressions(request)


def _update(request: Request) -> Iterator[str]:
    yield from _key(request["TableName"], request["Key"])
    yield from _expressions(request)
    paths = list(_updated_paths(request))
    for path in paths:
        if path[0] in request["Key"]:
            yield f"{path[0]} is part of the key and can't be updated"
    for number, path in enumerate(paths):
        if any(other[: len(path)] == path for other in paths[:number] + paths[number + 1 :]):
            yield f"two document paths overlap at {'.'.join(path)}"
    if request.get("ReturnValues", "NONE") not in {"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"}:
        yield f"ReturnValues can't be {request['ReturnValues']}"


def _query(request: Request) -> Iterator[str]:
    yield from _expressions(request)
    keys = _table_keys(request["TableName"])
    if keys is None:
        return
    if "IndexName" in request:
        keys = _indexes(request["TableName"]).get(request["IndexName"])
        if keys is None:
            yield f"the table does not have the specified index: {request['IndexName']}"
            return
        if request.get("ConsistentRead"):
            yield "consistent reads are not supported on global secondary indexes"
    condition = str(request["KeyConditionExpression"])
    names = [_real_name(token, request) for token in _tokens(condition) if _is_name(token)]
    if not re.search(rf"(^|\W)({'|'.join(_spellings(keys.partition, request))})\s*=\s*:", condition):
        yield f"a query needs {keys.partition} = a value"
    if foreign := set(names) - {keys.partition, keys.sort}:
        yield f"a key condition can't name {', '.join(sorted(foreign))}"
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        yield f"a key condition has one condition per key, not several on {repeated}"
    if {"OR", "NOT", "IN"} & set(_tokens(condition)) or "<>" in condition:
        yield "a key condition knows no OR, NOT, IN, <>"


def _batch_write_item(request: Request) -> Iterator[str]:
    writes = [(table, write) for table, writes in request["RequestItems"].items() for write in writes]
    if not 1 <= len(writes) <= 25:
        yield f"a batch has 1 to 25 writes, not {len(writes)}"
    seen: Counter[str] = Counter()
    size = 0
    for table, write in writes:
        if "PutRequest" in write:
            item = write["PutRequest"]["Item"]
            yield from _item(table, item)
            size += item_size(item)
            seen[_identity(table, item)] += 1
        else:
            yield from _key(table, write["DeleteRequest"]["Key"])
            seen[_identity(table, write["DeleteRequest"]["Key"])] += 1
    for identity, count in seen.items():
        if count > 1:
            yield f"the list of item keys contains duplicates: {identity}"
    if size > LARGEST_BATCH:
        yield f"a batch is at most {LARGEST_BATCH} bytes, not {size}"


def _transact_write_items(request: Request) -> Iterator[str]:
    actions = request["TransactItems"]
    if not 1 <= len(actions) <= 100:
        yield f"a transaction has 1 to 100 actions, not {len(actions)}"
    if not 1 <= len(request.get("ClientRequestToken", "-")) <= 36:
        yield "a ClientRequestToken has 1 to 36 characters"
    seen: Counter[str] = Counter()
    size = 0
    for action in actions:
        if len(action) != 1:
            yield "each TransactItem is one operation"
        for kind, body in action.items():
            item = body["Item"] if kind == "Put" else body["Key"]
            seen[_identity(body["TableName"], item)] += 1
            size += item_size(item) + item_size(body.get("ExpressionAttributeValues", {}))
            yield from (f"{kind}: {breach}" for breach in _action(kind, body))
    for identity, count in seen.items():
        if count > 1:
            yield f"a transaction can't include several operations on one item: {identity}"
    if size > LARGEST_TRANSACTION:
        yield f"a transaction is at most {LARGEST_TRANSACTION} bytes, not {size}"


def _action(kind: str, body: Request) -> Iterator[str]:
    if kind == "Put":
        yield from _put(body)
    elif kind == "Update":
        yield from _update(body)
    else:
        yield from _key(body["TableName"], body["Key"])
        yield from _expressions(body)
        if kind == "ConditionCheck" and "ConditionExpression" not in body:
            yield "it has no ConditionExpression"


# -- expressions -------------------------------------------------------------------------------------------------


def _expressions(request: Request) -> Iterator[str]:
    expressions = [str(request[name]) for name in _EXPRESSIONS if name in request]
    tokens = [token for expression in expressions for token in _tokens(expression)]
    for expression in expressions:
        if not 1 <= len(expression.strip().encode()) <= _LARGEST_EXPRESSION:
            yield "an expression is empty, or over 4 KB"
    if any(operands.count(",") >= _MOST_OPERANDS for expression in expressions for operands in _IN.findall(expression)):
        yield f"IN takes at most {_MOST_OPERANDS} operands"
    for token in tokens:
        if token[0].isdigit():
            yield f"the attribute name {token} starts with a digit and needs an alias"
        elif _is_name(token) and token.upper() in RESERVED_WORDS:
            yield f"attribute name is a reserved keyword: {token}"
    for parameter, mark in (("ExpressionAttributeNames", "#"), ("ExpressionAttributeValues", ":")):
        yield from _placeholders(parameter, request.get(parameter), {token for token in tokens if token[0] == mark})
    for name, value in request.get("ExpressionAttributeValues", {}).items():
        yield from _value(name, value)


def _placeholders(parameter: str, given: Mapping[str, Any] | None, used: set[str]) -> Iterator[str]:
    if given is not None and not given:
        yield f"{parameter} must not be empty"
    if unused := set(given or ()) - used:
        yield f"{parameter} unused in expressions: {sorted(unused)}"
    if undefined := used - set(given or ()):
        yield f"an expression uses what {parameter} doesn't define: {sorted(undefined)}"


def _tokens(expression: str) -> list[str]:
    """Its words and signs; a function keeps its parenthesis (`size(`), so that it is no attribute's name."""
    tokens: list[str] = []
    for token in _TOKEN.findall(expression):
        if token == "(" and tokens and _is_name(tokens[-1]):
            tokens[-1] += "("
        else:
            tokens.append(token)
    return tokens


def _is_name(token: str) -> bool:
    """Whether it names an attribute, by itself or by an alias."""
    word = re.fullmatch(r"#?[A-Za-z_]\w*", token) is not None
    return word and token not in _OPERATORS and token not in _CLAUSES


def _real_name(token: str, request: Request) -> str:
    return str(request.get("ExpressionAttributeNames", {}).get(token, token))


def _spellings(attribute: str, request: Request) -> list[str]:
    names = request.get("ExpressionAttributeNames", {})
    return [attribute, *(alias for alias, name in names.items() if name == attribute)]


def _updated_paths(request: Request) -> Iterator[tuple[str, ...]]:
    expression = str(request.get("UpdateExpression", ""))
    for clause in re.split(r"\b(?=(?:SET|REMOVE|ADD|DELETE)\s)", expression):
        _, _, assignments = clause.strip().partition(" ")
        for assignment in re.split(r",(?![^(]*\))", assignments):
            if target := re.match(r"[\w#.\[\]]+", assignment.strip()):
                yield tuple(_real_name(part, request) for part in target[0].split("."))


# -- items and values --------------------------------------------------------------------------------------------


def _item(table: str, item: Mapping[str, Any]) -> Iterator[str]:
    keys = _table_keys(table)
    if keys is not None:
        names = [name for name in (keys.partition, keys.sort) if name is not None]
        yield from _key(table, {name: item[name] for name in names if name in item})
    for index, index_keys in _indexes(table).items():
        value = item.get(index_keys.partition, {"S": "absent"})
        if set(value) != {"S"} or not value["S"]:
            yield f"the key {index_keys.partition} of the index {index} is a string that is not empty"
    for name, value in item.items():
        yield from _value(name, value)
    if (size := item_size(item)) > LARGEST_ITEM:
        yield f"item size has exceeded the maximum allowed size: {size} bytes"


def _key(table: str, key: Mapping[str, Any]) -> Iterator[str]:
    keys = _table_keys(table)
    if keys is not None and set(key) != {keys.partition, keys.sort} - {None}:
        yield f"the provided key element does not match the schema of {table}: {sorted(key)}"
    for longest, (name, value) in zip(
        _LONGEST_KEYS, sorted(key.items(), key=lambda pair: _rank(pair[0])), strict=False
    ):
        if set(value) != {"S"}:
            yield f"type mismatch for key {name}: not a string"
        elif not 1 <= len(value["S"].encode()) <= longest:
            yield f"the key {name} has 1 to {longest} bytes, not {len(value['S'].encode())}"


def _rank(name: str) -> bool:
    return any(name == keys.sort for keys in _KEYS.values())


def _value(name: str, value: Mapping[str, Any]) -> Iterator[str]:
    if len(value) != 1 or not set(value) <= _TYPES:
        yield f"{name}: an attribute value has exactly one of the known types, not {sorted(value)}"
        return
    kind, content = next(iter(value.items()))
    if kind in _PYTHON_TYPES and not isinstance(content, _PYTHON_TYPES[kind]):
        yield f"{name}: {content!r} is not of the type {kind}"
        return
    if kind in {"SS", "NS", "BS"} and (not content or len(set(content)) != len(content)):
        yield f"{name}: a set may not be empty nor repeat itself"
    for text in [content] if kind == "N" else content if kind == "NS" else ():
        if not _is_number(text):
            yield f"{name}: {text!r} is no number that DynamoDB can keep"
    children: Iterable[tuple[str, Any]] = ()
    if kind == "M":
        children = content.items()
    elif kind == "L":
        children = enumerate(content)  # type: ignore[assignment]
    for child_name, child in children:
        yield from _value(f"{name}.{child_name}", child)


def _is_number(text: str) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= _MOST_DIGITS and (number == 0 or -130 <= number.adjusted() <= 125)


def _value_size(value: Mapping[str, Any]) -> int:
    kind, content = next(iter(value.items()))
    if kind == "S":
        return len(str(content).encode())
    if kind == "N":
        return len(str(content)) // 2 + 2
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _value_size(child) for name, child in content.items())
    if kind == "L":
        return 3 + sum(1 + _value_size(child) for child in content)
    if kind in {"BOOL", "NULL"}:
        return 1
    return sum(len(part) for part in content) if kind in {"SS", "NS", "BS"} else len(content)


def _table_keys(table: str) -> TableKeys | None:
    """A table's keys, by the end of its name; None for a table that isn't one of ours."""
    return _KEYS.get(_kind(table))


def _indexes(table: str) -> dict[str, TableKeys]:
    """A table's indexes."""
    return {index: keys for (kind, index), keys in _INDEXES.items() if kind == _kind(table)}


def _kind(table: str) -> str:
    return table.rsplit("-", 1)[-1]


def _identity(table: str, item: Mapping[str, Any]) -> str:
    keys = _table_keys(table)
    names = sorted(item) if keys is None else [name for name in (keys.partition, keys.sort) if name is not None]
    return f"{table}/" + "/".join(str(item.get(name)) for name in names)
