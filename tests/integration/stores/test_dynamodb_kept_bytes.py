"""In DynamoDB a tenant has a bound, over all tasks: what is kept there is money."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from evenflow.stream_aws.dynamodb_kept_bytes import DynamoDBKeptBytes
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.session_store import StoreFull
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import LIFETIME, NOW, new_message, new_name

MOST = 1_000_000
TEXT = "x" * 50_000


class Task:
    """The ledger as one task has it, with what it knows of tenants."""

    def __init__(self, stores: DynamoDBStores, table: str, most_bytes: int = MOST) -> None:
        self.kept = DynamoDBKeptBytes(stores.client, table, lambda: None, most_bytes)
        self.sessions = DynamoDBSessionStore(
            stores.client, stores.tables, lambda: None, LIFETIME, self.kept
        )

    async def send(self, tenant: str = "acme", now: float = NOW, text: str = TEXT) -> Channel:
        channel = Channel(tenant, "agent", new_name("session"))
        await self.sessions.accept(channel, new_message(None, text), now)
        await asyncio.gather(*self.kept._exchanges)
        return channel

    async def fill(self, now: float = NOW) -> int:
        """Send until the tenant is refused. Returns how many were accepted."""
        for accepted in range(100):
            try:
                await self.send(now=now)
            except StoreFull:
                await asyncio.gather(*self.kept._exchanges)
                return accepted
        raise AssertionError("nothing stops it")


async def test_a_tenant_has_its_bound_over_all_tasks(
    dynamodb_stores: DynamoDBStores, tenants_table: str
) -> None:
    one, other = (Task(dynamodb_stores, tenants_table) for _ in range(2))
    await other.send()
    assert await one.fill() == 18
    assert await other.fill(NOW + 31) <= 1, "it learns within half a minute"
    await other.send("another tenant")


async def test_a_task_that_has_just_begun_learns_what_there_is(
    dynamodb_stores: DynamoDBStores, tenants_table: str
) -> None:
    await Task(dynamodb_stores, tenants_table).fill()
    assert await Task(dynamodb_stores, tenants_table).fill() == 1


async def test_what_has_expired_is_not_counted(
    dynamodb_stores: DynamoDBStores, tenants_table: str
) -> None:
    task = Task(dynamodb_stores, tenants_table)
    await task.fill()
    assert await task.fill(NOW + 2 * LIFETIME) == 19


async def test_what_is_deleted_is_not_counted(
    dynamodb_stores: DynamoDBStores, tenants_table: str
) -> None:
    task = Task(dynamodb_stores, tenants_table)
    channel = await task.send(text="short")
    assert await task.fill() == 19
    ended = await task.send("another tenant")
    await task.sessions.end(ended, NOW)
    await task.sessions.end(channel, NOW)
    assert task.kept._tenants["another tenant"].bytes_from("") == 0


async def test_texts_apart_count_too(dynamodb_stores: DynamoDBStores, tenants_table: str) -> None:
    task = Task(dynamodb_stores, tenants_table)
    apart = replace(new_message(None, ""), text_name="large", text_bytes=MOST - 2_000)
    await task.sessions.accept(Channel("acme", "agent", "s"), apart, NOW)
    assert await task.fill() == 0


async def test_a_sick_table_stops_no_message(
    dynamodb_stores: DynamoDBStores, tenants_table: str, short_pauses: None
) -> None:
    task = Task(dynamodb_stores, tenants_table)
    dynamodb_stores.dynamodb.inject(Fault.INTERNAL_ERROR, "UpdateItem")
    await task.send()
    assert task.kept._tenants["acme"].unsent.total() > len(TEXT), "it is added later"
