"""DynamoDB without its wire: an operation and its JSON in, an answer out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from tests.dynamodb_emulator import batches, item_operations, queries, table_operations, transactions
from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.errors import RequestRefused, throttled, unreadable
from tests.dynamodb_emulator.parameters import Parameters, Request

Operation = tuple[Parameters, Callable[[Database, Request], dict[str, Any]]]

TABLE_OPERATIONS: dict[str, Operation] = {
    "CreateTable": (table_operations.CREATE_TABLE, table_operations.create_table),
    "DeleteTable": (table_operations.DELETE_TABLE, table_operations.delete_table),
    "DescribeTable": (table_operations.DESCRIBE_TABLE, table_operations.describe_table),
    "DescribeTimeToLive": (table_operations.DESCRIBE_TIME_TO_LIVE, table_operations.describe_time_to_live),
    "ListTables": (table_operations.LIST_TABLES, table_operations.list_tables),
    "UpdateTimeToLive": (table_operations.UPDATE_TIME_TO_LIVE, table_operations.update_time_to_live),
}
ITEM_OPERATIONS: dict[str, Operation] = {
    "DeleteItem": (item_operations.DELETE_ITEM, item_operations.delete_item),
    "GetItem": (item_operations.GET_ITEM, item_operations.get_item),
    "PutItem": (item_operations.PUT_ITEM, item_operations.put_item),
    "Query": (queries.QUERY, queries.query),
    "Scan": (queries.SCAN, queries.scan),
    "TransactGetItems": (transactions.TRANSACT_GET_ITEMS, transactions.transact_get_items),
    "UpdateItem": (item_operations.UPDATE_ITEM, item_operations.update_item),
}
PARTLY_THROTTLED: dict[str, Operation] = {
    "BatchGetItem": (batches.BATCH_GET_ITEM, batches.batch_get_item),
    "BatchWriteItem": (batches.BATCH_WRITE_ITEM, batches.batch_write_item),
    "TransactWriteItems": (transactions.TRANSACT_WRITE_ITEMS, transactions.transact_write_items),
}
"""Operations that look themselves what throttling leaves of them."""

OPERATIONS = TABLE_OPERATIONS | ITEM_OPERATIONS | PARTLY_THROTTLED


class Service:
    """Answers requests, and counts them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.calls: Counter[str] = Counter()
        """Requests by operation, whatever became of them."""

    def answer(self, name: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and the JSON that a request is answered with."""
        try:
            if name not in OPERATIONS:
                raise RequestRefused("UnknownOperationException", f"the operation {name!r} is unknown, or not emulated")
            self.calls[name] += 1
            return 200, orjson.dumps(self._done(name, body))
        except RequestRefused as refused:
            return 400, orjson.dumps(refused.body)

    def _done(self, name: str, body: bytes) -> dict[str, Any]:
        parameters, operation = OPERATIONS[name]
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise unreadable(str(error)) from None
        parameters.check(request)
        if name in ITEM_OPERATIONS and self.database.faults.throttles(name):
            raise throttled()
        return operation(self.database, request)
