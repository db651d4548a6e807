"""The implementations of the stores; DynamoDB's behind a proxy that makes the emulator as strict as DynamoDB is."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiobotocore.session import AioSession

from stream_aws.dynamodb import Client, client_config
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.tables import TableNames
from stream_core.memory_store import MemoryResponseStore, MemorySessionStore
from stream_core.response_store import ResponseStore
from stream_sqlite.stores import SQLiteStores
from tests.dynamodb_emulator.process import DynamoDBEmulator, dynamodb_emulator
from tests.dynamodb_emulator.stores import EmulatedStores, emulated_stores
from tests.integration.aws_emulator import REGION, AwsEmulator, aws_emulator
from tests.integration.faulty_dynamodb import FaultyDynamoDB, faulty_dynamodb
from tests.integration.stores.stores import NOW, Stores, new_name


@dataclass(frozen=True, slots=True)
class DynamoDBStores(Stores):
    """The stores in DynamoDB, with the proxy that they call and the retries that they counted."""

    client: Client
    dynamodb: FaultyDynamoDB
    tables: TableNames
    retries: Counter[str]

    def of_another_task(self) -> DynamoDBResponseStore:
        """See there."""
        return DynamoDBResponseStore(self.client, self.tables.responses, lambda: None)


@dataclass(frozen=True, slots=True)
class FileStores(Stores):
    """The stores in a file, and those of another process that has it open."""

    other: SQLiteStores

    def of_another_task(self) -> ResponseStore:
        """See there."""
        return self.other.responses


@pytest.fixture
def sqlite_stores(tmp_path: Path) -> Iterator[FileStores]:
    """The stores in a file of their own."""
    path = tmp_path / "evenflow.db"
    with closing(SQLiteStores(path, lambda: NOW)) as one, closing(SQLiteStores(path, lambda: NOW)) as other:
        yield FileStores(one.responses, one.sessions, other)


@pytest.fixture
def memory_stores() -> Stores:
    """The stores in memory."""
    responses = MemoryResponseStore()
    return Stores(responses, MemorySessionStore(responses))


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsEmulator]:
    """One emulator for all tests of this folder."""
    with aws_emulator(tmp_path_factory.mktemp("emulator") / "emulator.log") as running:
        yield running


@pytest.fixture(scope="module")
def tables(emulator: AwsEmulator) -> TableNames:
    """Tables for the tests of a module: the emulator's transactions copy them, so they should not grow for ever."""
    return emulator.create_tables(new_name("test"))


@pytest.fixture(scope="session")
def sdk() -> AioSession:
    """The SDK's session, whose service models are read once."""
    return AioSession()


@pytest.fixture
async def dynamodb_stores(emulator: AwsEmulator, tables: TableNames, sdk: AioSession) -> AsyncIterator[DynamoDBStores]:
    """The stores in DynamoDB.

    A request that DynamoDB would refuse fails the test, and so does a read that it may answer with the past.
    """
    retries: Counter[str] = Counter()

    def on_retry() -> None:
        retries["made again"] += 1

    async with (
        faulty_dynamodb(emulator.endpoint) as dynamodb,
        sdk.create_client(
            "dynamodb",
            config=client_config(connections=32),
            endpoint_url=dynamodb.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        ) as client,
    ):
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


@pytest.fixture(scope="session")
def fast_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBEmulator]:
    """The emulator that load tests use: it promises what the stores rely on."""
    with dynamodb_emulator(tmp_path_factory.mktemp("fast_emulator") / "emulator.log") as running:
        yield running


@pytest.fixture(scope="module")
def fast_tables(fast_emulator: DynamoDBEmulator) -> TableNames:
    """Tables in it for the tests of a module."""
    return fast_emulator.create_tables(new_name("test"))


@pytest.fixture
async def fast_dynamodb_stores(
    fast_emulator: DynamoDBEmulator, fast_tables: TableNames, sdk: AioSession
) -> AsyncIterator[EmulatedStores]:
    """The stores in it."""
    async with emulated_stores(fast_emulator, fast_tables, sdk) as stores:
        yield stores


@pytest.fixture(params=["memory", "sqlite", "dynamodb", "fast_dynamodb"])
def stores(request: pytest.FixtureRequest) -> Stores:
    """The stores of each implementation."""
    chosen: Stores = request.getfixturevalue(f"{request.param}_stores")
    return chosen


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that fail every attempt, and not to see how long that takes."""
    monkeypatch.setattr("stream_aws.dynamodb._LONGEST_PAUSES", (0.01,) * 5)
