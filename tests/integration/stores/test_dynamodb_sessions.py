"""What only a ledger in DynamoDB can show: it is read in pages, and the reads are no snapshot."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from evenflow.stream_core.stores.session_store import LedgerEntry
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, new_channel, new_message

_TEXT = "x" * 300_000  # four of them are more than a page


async def test_messages_accepted_between_two_pages_are_found(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores, channel, messages = dynamodb_stores, new_channel(), list[LedgerEntry]()

    async def accept(message_id: str) -> None:
        message = new_message(messages[-1] if messages else None, _TEXT)
        messages.append(replace(message, message_id=message_id))
        await stores.sessions.accept(channel, messages[-1], NOW)

    for message_id in "mnopq":
        await accept(message_id)
    second = stores.dynamodb.hold("Query", "ExclusiveStartKey")
    loading = asyncio.create_task(stores.sessions.load(channel, NOW))
    await second.reached.wait()
    await accept("a")  # on the page that was read
    await accept("z")  # on the page that will be
    second.released.set()
    stored = await loading
    assert (stored.last_message_id, list(stored.messages)) == ("z", messages)
