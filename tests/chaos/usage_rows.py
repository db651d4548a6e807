"""What the store has of a tenant's usage: it must add up to what clients asked and models gave.

But for making the tenant it shares no code with the server.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiobotocore.session import AioSession

from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from tests.chaos.window import Window
from tests.integration.aws_emulator import SIGNED_BY

TENANT = "public"
_BUDGET = 10**12
_USAGE_PARTITIONS = [f"{TENANT}#{number}" for number in range(8)]


@dataclass(frozen=True, slots=True)
class UsageRows:
    """All that is on record of the tenant's usage.

    Args:
        records: usage records by response.
        committed: tokens that are spent and reserved.
    """

    reserved: list[str]
    records: Mapping[str, list[Mapping[str, Any]]]
    committed: int


class UsageTable:
    """The tenants' table of a run.

    Args:
        endpoint: of the store.
    """

    def __init__(self, endpoint: str, table: str) -> None:
        self._endpoint = endpoint
        self._table = table

    async def make_tenant(self) -> None:
        """Give the tenant of all clients a budget that it doesn't use up."""
        tenant = Tenant(id=TENANT, limits=QuotaLimits(tokens_per_day=_BUDGET))
        async with self._client() as client:
            await DynamoDBTenantStore(client, self._table, lambda: None).put(tenant, 0)

    async def read(self) -> UsageRows:
        """What is on record now."""
        records: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        async with self._client() as client:
            for partition in _USAGE_PARTITIONS:
                for item in await self._rows(client, partition, "used#"):
                    record = json.loads(item["record"]["S"])
                    records[record["response_id"]].append(record)
            reserved = [item["row"]["S"] for item in await self._rows(client, TENANT, "reserved#")]
            counters = await self._rows(client, TENANT, "counter#tokens/")
        committed = sum(int(item["committed"]["N"]) for item in counters)
        return UsageRows(reserved, records, committed)

    async def _rows(self, client: Any, partition: str, beginning: str) -> list[Any]:
        pages = client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="tenant = :tenant AND begins_with(#row, :beginning)",
            ExpressionAttributeNames={"#row": "row"},
            ExpressionAttributeValues={":tenant": {"S": partition}, ":beginning": {"S": beginning}},
        )
        return [item async for page in pages for item in page["Items"]]

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        async with AioSession().create_client(
            "dynamodb", endpoint_url=self._endpoint, **SIGNED_BY
        ) as client:
            yield client


def check_usage(window: Window, rows: UsageRows, tokens: Mapping[str, int]) -> None:
    """Check that each answer of a window has one record, with the model's own count of tokens.

    Args:
        tokens: what the model told of each call that it ended, by `<response>:<epoch>:<attempt>`.
    """
    own = {response_id: rows.records.get(response_id, []) for response_id in window.response_ids}
    window.usage_records = sum(map(len, own.values()))
    missing = [response_id for response_id, records in own.items() if not records]
    if missing:
        window.misses.append(f"{len(missing)} answers have no usage record: {missing[:5]}")
    twice = [response_id for response_id, records in own.items() if len(records) > 1]
    if twice:
        window.misses.append(f"{len(twice)} answers have several usage records: {twice[:5]}")
    wrong = []
    for record in (record for records in own.values() for record in records):
        call = f"{record['response_id']}:{record['epoch']}:"
        told = [count for key, count in tokens.items() if key.startswith(call)]
        if record["state"] == "completed" and record["output_tokens"] not in told:
            wrong.append(f"{call} {record['output_tokens']}, the model told {told}")
    if wrong:
        window.misses.append(f"{len(wrong)} usage records have other tokens: {wrong[:5]}")


def check_sums(window: Window, rows: UsageRows) -> None:
    """Check that nothing is reserved, and that the budget has the sum of all records."""
    if rows.reserved:
        window.misses.append(f"{len(rows.reserved)} answers are reserved for: {rows.reserved[:5]}")
    used = sum(
        record["input_tokens"] + record["output_tokens"]
        for records in rows.records.values()
        for record in records
    )
    if rows.committed != used:
        window.misses.append(f"{rows.committed:,} tokens are committed, and {used:,} were used")
