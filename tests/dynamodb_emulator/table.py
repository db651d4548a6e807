"""A table: its items, its indexes, and what DescribeTable says of it."""

from __future__ import annotations

import uuid
from typing import Any

from tests.dynamodb_emulator.attribute_values import Item
from tests.dynamodb_emulator.errors import invalid
from tests.dynamodb_emulator.index import Index
from tests.dynamodb_emulator.key_schema import KeySchema
from tests.dynamodb_emulator.partitions import Partitions

_ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/"
_INDEX_PARTS = ("IndexName", "KeySchema", "Projection")


class Table:
    """One table.

    Args:
        request: the CreateTable that made it.
        created_at: seconds since the epoch.
    """

    def __init__(self, request: dict[str, Any], schema: KeySchema, indexes: list[Index], created_at: float) -> None:
        self.name: str = request["TableName"]
        self.schema = schema
        self.indexes = {index.name: index for index in indexes}
        self.items = Partitions()
        self.time_to_live: str | None = None
        self._request = request
        self._created_at = created_at
        self._id = str(uuid.uuid4())

    def check(self, item: Item) -> None:
        """Refuse an item that an index could not have."""
        for index in self.indexes.values():
            index.check(item)

    def index(self, name: str) -> Index:
        """One index."""
        if name not in self.indexes:
            raise invalid(f"The table does not have the specified index: {name}")
        return self.indexes[name]

    def description(self, status: str = "ACTIVE") -> dict[str, Any]:
        """What DescribeTable says."""
        sizes = [item.size for _, item in self.items]
        described = {
            "TableName": self.name,
            "TableArn": _ARN + self.name,
            "TableId": self._id,
            "TableStatus": status,
            "CreationDateTime": self._created_at,
            "KeySchema": self._request["KeySchema"],
            "AttributeDefinitions": self._request["AttributeDefinitions"],
            "ItemCount": len(sizes),
            "TableSizeBytes": sum(sizes),
            **_billing(self._request),
        }
        if self.indexes:
            described["GlobalSecondaryIndexes"] = [
                self._index_description(index, status) for index in self._request["GlobalSecondaryIndexes"]
            ]
        return described

    def _index_description(self, request: dict[str, Any], status: str) -> dict[str, Any]:
        sizes = [item.size for _, item in self.indexes[request["IndexName"]].items]
        return {
            **{part: request[part] for part in _INDEX_PARTS},
            "IndexArn": f"{_ARN}{self.name}/index/{request['IndexName']}",
            "IndexStatus": status,
            "ItemCount": len(sizes),
            "IndexSizeBytes": sum(sizes),
            "ProvisionedThroughput": _throughput(request),
        }


def _billing(request: dict[str, Any]) -> dict[str, Any]:
    if request.get("BillingMode") != "PAY_PER_REQUEST":
        return {"ProvisionedThroughput": _throughput(request)}
    return {"ProvisionedThroughput": _throughput(request), "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}


def _throughput(request: dict[str, Any]) -> dict[str, Any]:
    nothing = {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0}
    return {**nothing, **request.get("ProvisionedThroughput", {})}
