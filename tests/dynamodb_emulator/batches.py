"""BatchWriteItem and BatchGetItem."""

from __future__ import annotations

from typing import Any

from tests.dynamodb_emulator.actions import Action, check_key_paths, read_delete, read_put
from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.errors import invalid, throttled, unreadable
from tests.dynamodb_emulator.item_operations import Response, projected, read_projection
from tests.dynamodb_emulator.parameters import NOTHING, Parameters, Request

BATCH_WRITE_ITEM = Parameters(
    {"RequestItems": dict}, {"ReturnConsumedCapacity": NOTHING, "ReturnItemCollectionMetrics": NOTHING}
)
BATCH_GET_ITEM = Parameters({"RequestItems": dict}, {"ReturnConsumedCapacity": NOTHING})

_PUT_REQUEST = Parameters({"Item": dict})
_DELETE_REQUEST = Parameters({"Key": dict})
_KEYS = Parameters(
    {"Keys": list},
    {"ConsistentRead": bool, "ProjectionExpression": str, "ExpressionAttributeNames": dict},
)
_MOST_WRITES = 25
_MOST_KEYS = 100
_LARGEST_ANSWER = 16 * 1024 * 1024


def batch_write_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    if any(type(writes) is not list for writes in request["RequestItems"].values()):
        raise unreadable("Start of list not found where expected")
    writes = [(table, write) for table, writes in request["RequestItems"].items() for write in writes]
    _check_count(list(map(len, request["RequestItems"].values())), _MOST_WRITES)
    actions = [_read_write(database, table, write) for table, write in writes]
    _check_distinct([(action.table.name, action.key) for action in actions])
    withheld = database.faults.unprocessed("BatchWriteItem", len(writes))
    if len(withheld) == len(writes):
        raise throttled()
    unprocessed: dict[str, list[Any]] = {}
    for number, action in enumerate(actions):
        if number in withheld:
            unprocessed.setdefault(action.table.name, []).append(writes[number][1])
        else:
            database.do(action.outcome())
    return {"UnprocessedItems": unprocessed}


def batch_get_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    parts = {name: _KEYS.check(part) for name, part in request["RequestItems"].items()}
    _check_count([len(part["Keys"]) for part in parts.values()], _MOST_KEYS)
    wanted = [(database.table(name), key) for name, part in parts.items() for key in part["Keys"]]
    keys = [table.schema.of_key(key) for table, key in wanted]
    _check_distinct([(table.name, key) for (table, _), key in zip(wanted, keys, strict=True)])
    projections = {name: read_projection(part) for name, part in parts.items()}
    for name, paths in projections.items():
        check_key_paths(database.table(name).schema.names, paths or ())
    withheld = database.faults.unprocessed("BatchGetItem", len(wanted))
    if len(withheld) == len(wanted):
        raise throttled()
    responses: dict[str, list[Any]] = {name: [] for name in parts}
    unprocessed: dict[str, Any] = {}
    size = 0
    for number, (table, key) in enumerate(wanted):
        item = table.items.get(keys[number])
        size += 0 if item is None else item.size
        if number in withheld or size > _LARGEST_ANSWER:
            unprocessed.setdefault(table.name, {**parts[table.name], "Keys": []})["Keys"].append(key)
        elif item is not None:
            responses[table.name].append(projected(item, projections[table.name]))
    return {"Responses": responses, "UnprocessedKeys": unprocessed}


def _read_write(database: Database, table: str, write: Any) -> Action:
    if type(write) is dict and write.keys() == {"PutRequest"}:
        return read_put(database, {"TableName": table, **_PUT_REQUEST.check(write["PutRequest"])})
    if type(write) is dict and write.keys() == {"DeleteRequest"}:
        return read_delete(database, {"TableName": table, **_DELETE_REQUEST.check(write["DeleteRequest"])})
    raise invalid("Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest")


def _check_count(counts: list[int], most: int) -> None:
    if not counts or 0 in counts or sum(counts) > most:
        raise invalid(
            "1 validation error detected: Value at 'requestItems' failed to satisfy constraint: "
            f"Member must have length less than or equal to {most}, Member must have length greater than or equal to 1"
        )


def _check_distinct(keys: list[Any]) -> None:
    if len(set(keys)) < len(keys):
        raise invalid("Provided list of item keys contains duplicates")
