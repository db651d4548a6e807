"""Query and Scan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.dynamodb_emulator.actions import check_key_paths
from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.errors import RequestRefused, invalid
from tests.dynamodb_emulator.expressions.conditions import Condition
from tests.dynamodb_emulator.expressions.key_conditions import KeyRange, key_range
from tests.dynamodb_emulator.expressions.paths import Path
from tests.dynamodb_emulator.expressions.request_expressions import Parsed, RequestExpressions
from tests.dynamodb_emulator.index import Index
from tests.dynamodb_emulator.item_operations import Response, projected
from tests.dynamodb_emulator.key_schema import KeySchema
from tests.dynamodb_emulator.parameters import NOTHING, Parameters, ParameterTypes, Request
from tests.dynamodb_emulator.partitions import ItemKey, Partitions, StoredItem
from tests.dynamodb_emulator.table import Table

PAGE_BYTES = 1024 * 1024

_SELECTIONS = frozenset({"ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"})
_READ: ParameterTypes = {
    "IndexName": str,
    "Select": _SELECTIONS,
    "Limit": int,
    "ConsistentRead": bool,
    "ExclusiveStartKey": dict,
    "FilterExpression": str,
    "ProjectionExpression": str,
    "ExpressionAttributeNames": dict,
    "ExpressionAttributeValues": dict,
    "ReturnConsumedCapacity": NOTHING,
}
QUERY = Parameters({"TableName": str, "KeyConditionExpression": str}, {**_READ, "ScanIndexForward": bool})
SCAN = Parameters({"TableName": str}, _READ)


@dataclass(frozen=True, slots=True)
class _Read:
    """What a query and a scan have in common: where they read, and what they want of it."""

    table: Table
    index: Index | None
    filter: Parsed[Condition] | None
    wanted: tuple[Path, ...] | None
    values: Item

    @property
    def items(self) -> Partitions:
        """Where they read."""
        return self.table.items if self.index is None else self.index.items

    @property
    def schema(self) -> KeySchema:
        """The key there."""
        return self.table.schema if self.index is None else self.index.schema

    @property
    def key_names(self) -> tuple[str, ...]:
        """What a page is continued with."""
        return self.table.schema.names if self.index is None else self.index.key_names

    def start_key(self, request: Request) -> ItemKey | None:
        """The item behind which this page begins."""
        key = request.get("ExclusiveStartKey")
        if key is None:
            return None
        try:
            if set(key) != set(self.key_names):
                raise invalid("The provided key element does not match the schema")
            self.table.schema.of_item(key)
            self.schema.of_item(key)
        except RequestRefused as refused:
            raise invalid(f"The provided starting key is invalid: {refused.message}") from None
        return self.table.schema.key_of(key) if self.index is None else self.index.key_of(key)

    def page(self, found: Iterable[StoredItem], request: Request) -> Response:
        """The answer: what passes the filter, of as many items as a page takes."""
        limit, items, scanned, size, last = request.get("Limit"), list[Any](), 0, 0, None
        for item in found:
            scanned += 1
            size += item.size
            if self.filter is None or self.filter.meaning.holds(item.attributes, self.values):
                items.append(item)
            if scanned == limit or size >= PAGE_BYTES:
                last = item.attributes
                break
        response: Response = {"Count": len(items), "ScannedCount": scanned}
        if request.get("Select") != "COUNT":
            response["Items"] = [projected(item, self.wanted) for item in items]
        if last is not None:
            response["LastEvaluatedKey"] = {name: last[name] for name in self.key_names}
        return response


def query(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    expressions = RequestExpressions(request)
    condition = expressions.condition("KeyConditionExpression")
    assert condition is not None  # a parameter that it must have
    read = _read(database, request, expressions)
    sought = key_range(condition.meaning, read.values, read.schema)
    if read.filter is not None:
        _check_filter(read.filter.paths, read.schema)
    start = read.start_key(request)
    return read.page(_sought(read.items, sought, start, request.get("ScanIndexForward", True)), request)


def scan(database: Database, request: Request) -> Response:
    """See DynamoDB's reference."""
    read = _read(database, request, RequestExpressions(request))
    found = read.items.after(read.start_key(request))
    return read.page((item for _, item in found), request)


def _read(database: Database, request: Request, expressions: RequestExpressions) -> _Read:
    condition, wanted = expressions.condition("FilterExpression"), expressions.projection()
    expressions.finish()
    _check_request(request, wanted is not None)
    table = database.table(request["TableName"])
    index = None
    if "IndexName" in request:
        index = database.caught_up(table.index(request["IndexName"]))
        _check_index(index, request, (*(condition.paths if condition else ()), *(wanted or ())))
    check_key_paths(table.schema.names, (*(condition.paths if condition else ()), *(wanted or ())))
    return _Read(table, index, condition, wanted, expressions.values)


def _check_request(request: Request, projects: bool) -> None:
    if request.get("Limit", 1) < 1:
        raise invalid(
            f"1 validation error detected: Value '{request['Limit']}' at 'limit' failed to satisfy constraint: "
            "Member must have value greater than or equal to 1"
        )
    selected = request.get("Select")
    if projects and selected not in {None, "SPECIFIC_ATTRIBUTES"}:
        raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {selected}")
    if selected == "SPECIFIC_ATTRIBUTES" and not projects:
        raise invalid(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
        )
    if selected == "ALL_PROJECTED_ATTRIBUTES" and "IndexName" not in request:
        raise invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")


def _check_index(index: Index, request: Request, paths: tuple[Path, ...]) -> None:
    if request.get("ConsistentRead"):
        raise invalid("Consistent reads are not supported on global secondary indexes")
    if request.get("Select") == "ALL_ATTRIBUTES" and index.projection.type != "ALL":
        raise invalid(
            "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for "
            f"global secondary index {index.name} because its projection type is not ALL"
        )
    if missing := sorted({path.attribute for path in paths if not index.has(path.attribute)}):
        raise invalid(
            f"One or more parameter values were invalid: Global secondary index {index.name} does not project {missing}"
        )


def _check_filter(paths: tuple[Path, ...], schema: KeySchema) -> None:
    for path in paths:
        if path.attribute in schema.names:
            raise invalid(
                "Filter Expression can only contain non-primary key attributes: "
                f"Primary key attribute: {path.attribute}"
            )


def _sought(items: Partitions, sought: KeyRange, start: ItemKey | None, forward: bool) -> Iterator[StoredItem]:
    partition = items.partition(sought.partition)
    first, end = sought.slice(partition.positions)
    if start is not None:
        if start[0] != sought.partition or not sought.admits(start[1]):
            raise invalid("The provided starting key is outside query boundaries based on provided conditions")
        if forward:
            first = max(first, bisect_right(partition.positions, start[1]))
        else:
            end = min(end, bisect_left(partition.positions, start[1]))
    numbers = range(first, end) if forward else range(end - 1, first - 1, -1)
    return (partition.items[partition.positions[number]] for number in numbers)
