"""GetItem, PutItem, UpdateItem, DeleteItem."""

from __future__ import annotations

from typing import Any

import orjson

from tests.dynamodb_emulator.actions import Action, check_key_paths, read_delete, read_put, read_update
from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.database import Database, Write
from tests.dynamodb_emulator.expressions.paths import Path, picked, tree
from tests.dynamodb_emulator.expressions.request_expressions import RequestExpressions
from tests.dynamodb_emulator.parameters import NOTHING, Parameters, ParameterTypes, Request
from tests.dynamodb_emulator.partitions import StoredItem

Response = dict[str, Any]

_CONDITION: ParameterTypes = {
    "ConditionExpression": str,
    "ExpressionAttributeNames": dict,
    "ExpressionAttributeValues": dict,
    "ReturnValuesOnConditionCheckFailure": frozenset({"NONE", "ALL_OLD"}),
}
_NO_STATISTICS: ParameterTypes = {"ReturnConsumedCapacity": NOTHING, "ReturnItemCollectionMetrics": NOTHING}
_OLD_OR_NOTHING = frozenset({"NONE", "ALL_OLD"})

GET_ITEM = Parameters(
    {"TableName": str, "Key": dict},
    {
        "ConsistentRead": bool,
        "ProjectionExpression": str,
        "ExpressionAttributeNames": dict,
        "ReturnConsumedCapacity": NOTHING,
    },
)
PUT_ITEM = Parameters(
    {"TableName": str, "Item": dict}, {**_CONDITION, **_NO_STATISTICS, "ReturnValues": _OLD_OR_NOTHING}
)
DELETE_ITEM = Parameters(
    {"TableName": str, "Key": dict}, {**_CONDITION, **_NO_STATISTICS, "ReturnValues": _OLD_OR_NOTHING}
)
UPDATE_ITEM = Parameters(
    {"TableName": str, "Key": dict},
    {
        **_CONDITION,
        **_NO_STATISTICS,
        "UpdateExpression": str,
        "ReturnValues": frozenset({"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"}),
    },
)


def get_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    wanted = read_projection(request)
    table = database.table(request["TableName"])
    key = table.schema.of_key(request["Key"])
    check_key_paths(table.schema.names, wanted or ())
    found = table.items.get(key)
    return {} if found is None else {"Item": projected(found, wanted)}


def put_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    return _done(database, read_put(database, request), request)


def delete_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    return _done(database, read_delete(database, request), request)


def update_item(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    return _done(database, read_update(database, request), request)


def read_projection(request: Request) -> tuple[Path, ...] | None:
    """What a request that reads one item by its key wants of it; None for everything."""
    expressions = RequestExpressions(request)
    wanted = expressions.projection()
    expressions.finish()
    return wanted


def projected(item: StoredItem, wanted: tuple[Path, ...] | None) -> orjson.Fragment | Item:
    """An item as it is answered: whole, or these paths of it."""
    return orjson.Fragment(item.json) if wanted is None else picked(item.attributes, tree(wanted))


def _done(database: Database, action: Action, request: Request) -> Response:
    write = action.outcome()
    database.do(write)
    returned = _returned(write, request.get("ReturnValues", "NONE"), action.updated)
    return {"Attributes": returned} if returned else {}


def _returned(write: Write, wanted: str, updated: tuple[Path, ...]) -> orjson.Fragment | Item | None:
    item = write.old if wanted.endswith("OLD") else write.new
    if wanted == "NONE" or item is None:
        return None
    return projected(item, updated if wanted.startswith("UPDATED") else None)
