"""What tasks do for tenants, in DynamoDB: one row a tenant and task, in the tenant's partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from evenflow.stream_aws.attributes import Item, number, seconds, text
from evenflow.stream_aws.dynamodb import Client, query_all, write_all
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_core.tenants.tenant_activity import KEPT_SECONDS, Activity

_PREFIX = "activity#"
_COUNTS = tuple(field.name for field in fields(Activity) if field.name not in {"tenant", "task"})
_FRACTIONS = ("service", "expected")
_READ_AT_ONCE = 16


class DynamoDBTenantActivity:
    """The activity of tenants in DynamoDB (`TenantActivity`).

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of tenants.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._reads = asyncio.Semaphore(_READ_AT_ONCE)

    async def note(self, rows: Sequence[Activity], now: float) -> None:
        writes = [{"PutRequest": {"Item": _item(row, now)}} for row in rows]
        await write_all(self._client, self._table, writes, self._on_retry)

    async def of(self, tenants: Sequence[str], now: float) -> Sequence[Activity]:
        items_by_tenant = await asyncio.gather(*(self._of_one(tenant) for tenant in set(tenants)))
        return [
            _read(item)
            for items in items_by_tenant
            for item in items
            if float(item[TTL_ATTRIBUTE]["N"]) > now
        ]

    async def _of_one(self, tenant: str) -> list[Item]:
        request = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "tenant = :tenant AND begins_with(#row, :activity)",
            "ExpressionAttributeNames": {"#row": "row"},
            "ExpressionAttributeValues": {":tenant": text(tenant), ":activity": text(_PREFIX)},
        }
        async with self._reads:
            return await query_all(self._client, request, self._on_retry)


def _item(row: Activity, now: float) -> Item:
    return {
        "tenant": text(row.tenant),
        "row": text(_PREFIX + row.task),
        TTL_ATTRIBUTE: seconds(now + KEPT_SECONDS),
        **{name: number(getattr(row, name)) for name in _COUNTS},
    }


def _read(item: Item) -> Activity:
    # What a task of an earlier version hasn't written is left out.
    counts: dict[str, Any] = {
        name: (float if name in _FRACTIONS else int)(item[name]["N"])
        for name in _COUNTS
        if name in item
    }
    task = item["row"]["S"].removeprefix(_PREFIX)
    return Activity(item["tenant"]["S"], task, **counts)
