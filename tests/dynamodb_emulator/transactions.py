"""TransactWriteItems and TransactGetItems: all or nothing."""

from __future__ import annotations

from typing import Any

from tests.dynamodb_emulator.actions import (
    Action,
    check_key_paths,
    read_check,
    read_delete,
    read_put,
    read_update,
)
from tests.dynamodb_emulator.database import Database, Write
from tests.dynamodb_emulator.errors import RequestRefused, invalid, throttled, unreadable
from tests.dynamodb_emulator.item_operations import Response, projected, read_projection
from tests.dynamodb_emulator.parameters import NOTHING, Parameters, ParameterTypes, Request
from tests.dynamodb_emulator.recent_tokens import digest_of

TRANSACT_WRITE_ITEMS = Parameters(
    {"TransactItems": list},
    {"ClientRequestToken": str, "ReturnConsumedCapacity": NOTHING, "ReturnItemCollectionMetrics": NOTHING},
)
TRANSACT_GET_ITEMS = Parameters({"TransactItems": list}, {"ReturnConsumedCapacity": NOTHING})

_EXPRESSION: ParameterTypes = {
    "ExpressionAttributeNames": dict,
    "ExpressionAttributeValues": dict,
    "ReturnValuesOnConditionCheckFailure": frozenset({"NONE", "ALL_OLD"}),
}
_CONDITION: ParameterTypes = {**_EXPRESSION, "ConditionExpression": str}
_ACTIONS = {
    "ConditionCheck": (
        Parameters({"TableName": str, "Key": dict, "ConditionExpression": str}, _EXPRESSION),
        read_check,
    ),
    "Put": (Parameters({"TableName": str, "Item": dict}, _CONDITION), read_put),
    "Update": (Parameters({"TableName": str, "Key": dict, "UpdateExpression": str}, _CONDITION), read_update),
    "Delete": (Parameters({"TableName": str, "Key": dict}, _CONDITION), read_delete),
}
_GET = Parameters({"TableName": str, "Key": dict}, {"ProjectionExpression": str, "ExpressionAttributeNames": dict})
_MOST_ACTIONS = 100
_LARGEST_TRANSACTION = 4 * 1024 * 1024
_LONGEST_TOKEN = 36

_REASONS = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "ValidationException": "ValidationError",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
}


def transact_write_items(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    token = request.get("ClientRequestToken")
    if token is not None and not 1 <= len(token) <= _LONGEST_TOKEN:
        raise invalid("1 validation error detected: a ClientRequestToken has 1 to 36 characters")
    digest = digest_of(request["TransactItems"])  # before its numbers are brought to their normal form
    actions = [_read_action(database, part) for part in _parts(request)]
    if len({(action.table.name, action.key) for action in actions}) < len(actions):
        raise invalid("Transaction request cannot include multiple operations on one item")
    if token is not None and database.tokens.knows(token, digest):
        return {}
    for write in _outcomes(actions, throttles=database.faults.throttles("TransactWriteItems")):
        database.do(write)
    if token is not None:
        database.tokens.remember(token, digest)
    return {}


def transact_get_items(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    responses = []
    for part in _parts(request):
        if part.keys() != {"Get"}:
            raise invalid("each TransactItem is a Get")
        get = _GET.check(part["Get"])
        wanted = read_projection(get)
        table = database.table(get["TableName"])
        check_key_paths(table.schema.names, wanted or ())
        found = table.items.get(table.schema.of_key(get["Key"]))
        responses.append({} if found is None else {"Item": projected(found, wanted)})
    return {"Responses": responses}


def _parts(request: Request) -> list[Any]:
    parts: list[Any] = request["TransactItems"]
    if not 1 <= len(parts) <= _MOST_ACTIONS:
        raise invalid(
            "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
            f"Member must have length less than or equal to {_MOST_ACTIONS}, and greater than or equal to 1"
        )
    if any(type(part) is not dict for part in parts):
        raise unreadable("a TransactItem is a structure")
    return parts


def _read_action(database: Database, part: Request) -> Action:
    if len(part) != 1 or not part.keys() <= _ACTIONS.keys():
        raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
    kind = next(iter(part))
    parameters, read = _ACTIONS[kind]
    return read(database, parameters.check(part[kind]))


def _outcomes(actions: list[Action], *, throttles: bool) -> list[Write]:
    writes: list[Write] = []
    reasons: list[dict[str, Any]] = []
    for number, action in enumerate(actions):
        try:
            if throttles and number == 0:
                raise throttled()
            writes.append(action.outcome())
            reasons.append({"Code": "None"})
        except RequestRefused as refused:
            reasons.append({"Code": _REASONS[refused.code], "Message": refused.message, **refused.details})
    if len(writes) < len(actions):
        codes = ", ".join(reason["Code"] for reason in reasons)
        raise RequestRefused(
            "TransactionCanceledException",
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
            CancellationReasons=reasons,
        )
    if sum(write.new.size for write in writes if write.new is not None) > _LARGEST_TRANSACTION:
        raise invalid("Transaction size has exceeded the maximum of 4 MB")
    return writes
