"""Both implementations of the stores, DynamoDB's with an emulator that is as strict as DynamoDB is."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from aiobotocore.session import AioSession

from stream_aws.dynamodb import Client
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.tables import TableNames
from stream_core.memory_store import MemoryResponseStore, MemorySessionStore
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.stores.stores import Stores, new_name


@dataclass(frozen=True, slots=True)
class DynamoDBStores(Stores):
    """The stores in DynamoDB, with the emulator that they call and the retries that they counted."""

    client: Client
    dynamodb: DynamoDBEmulator
    tables: TableNames
    retries: Counter[str]

    def of_another_task(self) -> DynamoDBResponseStore:
        """See there."""
        return DynamoDBResponseStore(self.client, self.tables.responses, lambda: None)


@pytest.fixture(scope="session")
def sdk() -> AioSession:
    """The SDK's session, whose service models are read once."""
    return AioSession()


@pytest.fixture
async def dynamodb_stores(sdk: AioSession) -> AsyncIterator[DynamoDBStores]:
    """The stores in DynamoDB, with tables of their own.

    A request that DynamoDB would refuse fails the test, and so does a read that it may answer with the past.
    """
    retries: Counter[str] = Counter()

    def on_retry() -> None:
        retries["made again"] += 1

    async with dynamodb_emulator() as dynamodb, dynamodb.asynchronous_client(sdk) as client:
        tables = dynamodb.create_tables(new_name("test"))
        yield DynamoDBStores(
            DynamoDBResponseStore(client, tables.responses, on_retry),
            DynamoDBSessionStore(client, tables, on_retry),
            client,
            dynamodb,
            tables,
            retries,
        )
        assert dynamodb.refused == []
        assert dynamodb.eventual_reads == 0


@pytest.fixture(params=["memory", "dynamodb"])
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """The stores of each implementation. Without faults, no call needs to be made again."""
    if request.param == "memory":
        responses = MemoryResponseStore()
        yield Stores(responses, MemorySessionStore(responses))
        return
    dynamodb: DynamoDBStores = request.getfixturevalue("dynamodb_stores")
    yield dynamodb
    assert not dynamodb.retries


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that fail every attempt, and not to see how long that takes."""
    monkeypatch.setattr("stream_aws.dynamodb._LONGEST_PAUSES", (0.01,) * 5)
