"""The stores in the emulator, with nothing in between, as their contract tests see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiobotocore.session import AioSession

from stream_aws.dynamodb import Client
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.tables import TableNames
from tests.dynamodb_emulator.process import DynamoDBEmulator
from tests.integration.stores.stores import Stores


@dataclass(frozen=True, slots=True)
class EmulatedStores(Stores):
    """The stores, and the client that they call."""

    client: Client
    tables: TableNames

    def of_another_task(self) -> DynamoDBResponseStore:
        """See there."""
        return DynamoDBResponseStore(self.client, self.tables.responses, _on_retry)


@asynccontextmanager
async def emulated_stores(
    emulator: DynamoDBEmulator, tables: TableNames, sdk: AioSession
) -> AsyncIterator[EmulatedStores]:
    """The stores in these tables. A call that has to be made again fails the test: there are no faults."""
    async with emulator.asynchronous_client(sdk) as client:
        responses = DynamoDBResponseStore(client, tables.responses, _on_retry)
        yield EmulatedStores(responses, DynamoDBSessionStore(client, tables, _on_retry), client, tables)


def _on_retry() -> None:
    raise AssertionError("the emulator did not answer as it should")
