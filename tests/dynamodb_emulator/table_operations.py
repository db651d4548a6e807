"""CreateTable, DescribeTable, ListTables, DeleteTable, and the two of time to live."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.errors import RequestRefused, invalid
from tests.dynamodb_emulator.index import Index, Projection
from tests.dynamodb_emulator.item_operations import Response
from tests.dynamodb_emulator.key_schema import KeySchema, key_schema
from tests.dynamodb_emulator.parameters import Parameters, Request
from tests.dynamodb_emulator.table import Table

_BILLING_MODES = frozenset({"PROVISIONED", "PAY_PER_REQUEST"})
CREATE_TABLE = Parameters(
    {"TableName": str, "AttributeDefinitions": list, "KeySchema": list},
    {"BillingMode": _BILLING_MODES, "ProvisionedThroughput": dict, "GlobalSecondaryIndexes": list},
)
DESCRIBE_TABLE = DELETE_TABLE = DESCRIBE_TIME_TO_LIVE = Parameters({"TableName": str})
LIST_TABLES = Parameters({}, {"Limit": int, "ExclusiveStartTableName": str})
UPDATE_TIME_TO_LIVE = Parameters({"TableName": str, "TimeToLiveSpecification": dict})

_DEFINITION = Parameters({"AttributeName": str, "AttributeType": frozenset({"S", "N", "B"})})
_KEY = Parameters({"AttributeName": str, "KeyType": frozenset({"HASH", "RANGE"})})
_INDEX = Parameters({"IndexName": str, "KeySchema": list, "Projection": dict}, {"ProvisionedThroughput": dict})
_PROJECTION = Parameters({"ProjectionType": frozenset({"ALL", "KEYS_ONLY", "INCLUDE"})}, {"NonKeyAttributes": list})
_THROUGHPUT = Parameters({"ReadCapacityUnits": int, "WriteCapacityUnits": int})
_TIME_TO_LIVE = Parameters({"Enabled": bool, "AttributeName": str})
_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_MOST_INDEXES = 20
_MOST_TABLES = 100


def create_table(database: Database, request: Request) -> Response:
    """See DynamoDB's reference. The table is there at once."""
    _check_name(request["TableName"])
    types = {
        _DEFINITION.check(each)["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]
    }
    schema = _schema(request, types)
    indexes = [_index(each, schema, types) for each in request.get("GlobalSecondaryIndexes", ())]
    if (
        "GlobalSecondaryIndexes" in request
        and not 1 <= len({index.name for index in indexes}) == len(indexes) <= _MOST_INDEXES
    ):
        raise invalid("One or more parameter values were invalid: there are 1 to 20 indexes, each with its own name")
    used = {name for each in (schema, *(index.schema for index in indexes)) for name in each.names}
    if used != types.keys() or len(types) != len(request["AttributeDefinitions"]):
        raise invalid(
            "One or more parameter values were invalid: Some AttributeDefinitions are not used. "
            f"AttributeDefinitions: {sorted(types)}, keys used: {sorted(used)}"
        )
    _check_billing(request)
    if request["TableName"] in database.tables:
        raise RequestRefused("ResourceInUseException", f"Table already exists: {request['TableName']}")
    table = database.tables[request["TableName"]] = Table(request, schema, indexes, time.time())
    return {"TableDescription": table.description("CREATING")}


def describe_table(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    return {"Table": _named(database, request).description()}


def delete_table(database: Database, request: Request) -> Response:
    """See DynamoDB's reference. The table is gone at once."""
    table = _named(database, request)
    del database.tables[table.name]
    return {"TableDescription": table.description("DELETING")}


def list_tables(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    limit = request.get("Limit", _MOST_TABLES)
    if not 1 <= limit <= _MOST_TABLES:
        raise invalid(f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint: 1 to 100")
    names = sorted(name for name in database.tables if name > request.get("ExclusiveStartTableName", ""))
    more = {"LastEvaluatedTableName": names[limit - 1]} if len(names) > limit else {}
    return {"TableNames": names[:limit], **more}


def update_time_to_live(database: Database, request: Request) -> Response:
    """See DynamoDB's reference. What expires is kept: DynamoDB may take days to delete it, so nobody may rely on that."""
    wanted = _TIME_TO_LIVE.check(request["TimeToLiveSpecification"])
    table = _named(database, request)
    if wanted["Enabled"] and table.time_to_live is not None:
        raise invalid("TimeToLive is already enabled")
    if not wanted["Enabled"] and table.time_to_live is None:
        raise invalid("TimeToLive is already disabled")
    if not wanted["Enabled"] and table.time_to_live != wanted["AttributeName"]:
        raise invalid(
            f"TimeToLive is active on a different AttributeName: current AttributeName is {table.time_to_live}"
        )
    table.time_to_live = wanted["AttributeName"] if wanted["Enabled"] else None
    return {"TimeToLiveSpecification": wanted}


def describe_time_to_live(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    attribute = _named(database, request).time_to_live
    if attribute is None:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}}


def _named(database: Database, request: Request) -> Table:
    name = request["TableName"]
    if name not in database.tables:
        raise RequestRefused("ResourceNotFoundException", f"Requested resource not found: Table: {name} not found")
    return database.tables[name]


def _schema(request: Request, types: dict[str, str]) -> KeySchema:
    return key_schema([_KEY.check(each) for each in request["KeySchema"]], types)


def _index(request: Any, table_schema: KeySchema, types: dict[str, str]) -> Index:
    _INDEX.check(request)
    _check_name(request["IndexName"])
    projection = _PROJECTION.check(request["Projection"])
    if (projection["ProjectionType"] == "INCLUDE") != ("NonKeyAttributes" in projection):
        raise invalid(
            "One or more parameter values were invalid: NonKeyAttributes belong to the ProjectionType INCLUDE, and it needs them"
        )
    others = frozenset(projection.get("NonKeyAttributes", ()))
    schema = _schema(request, types)
    return Index(request["IndexName"], schema, table_schema, Projection(projection["ProjectionType"], others))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid(
            f"1 validation error detected: Value '{name}' at 'tableName' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]{3,255}"
        )


def _check_billing(request: Request) -> None:
    on_demand = request.get("BillingMode") == "PAY_PER_REQUEST"
    for each in (request, *request.get("GlobalSecondaryIndexes", ())):
        if on_demand == ("ProvisionedThroughput" in each):
            raise invalid(
                "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must be specified "
                "when BillingMode is PROVISIONED, and can't be when it is PAY_PER_REQUEST"
            )
        if not on_demand:
            _THROUGHPUT.check(each["ProvisionedThroughput"])
