"""A tenant's bytes are counted once, and as many are taken away as were added."""

from __future__ import annotations

import asyncio

import pytest
from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb_kept_bytes import DynamoDBKeptBytes
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore, _size, _size_of_item
from evenflow.stream_aws.tables import TableNames
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.session_store import LedgerEntry, StoreFull

NOW = 1_795_478_400.0
MOST, SIZE = 1_000_000, 50_000


class DeniedClient:
    """A client whose task may not write the table."""

    async def update_item(self, **_: object) -> object:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "UpdateItem")


async def test_what_could_not_be_added_to_the_table_is_counted_once() -> None:
    kept = DynamoDBKeptBytes(DeniedClient(), "tenants", lambda: None, MOST)
    for number in range(5):
        kept.add("acme", SIZE, NOW, NOW + 31 * number)
        await asyncio.gather(*kept._exchanges)
    kept.check("acme", MOST - 5 * SIZE, NOW)
    with pytest.raises(StoreFull):
        kept.check("acme", MOST - 5 * SIZE + 1, NOW)
    await asyncio.gather(*kept._exchanges)


@pytest.mark.parametrize(
    "entry",
    [
        LedgerEntry("m", None, "hello", "r", "task", terms="{}"),
        LedgerEntry("m", None, "", "r", "task", text_name="r", text_bytes=10_000_000),
    ],
    ids=["with its text", "with its text apart"],
)
def test_an_item_counts_for_as_much_as_its_message(entry: LedgerEntry) -> None:
    sessions = DynamoDBSessionStore(
        DeniedClient(), TableNames("sessions", "ledger", "responses"), lambda: None
    )
    item = sessions._enter(Channel("acme", "agent", "s"), entry, NOW, is_long=False)["Item"]
    assert _size_of_item(item) == _size(entry)
