"""Both implementations of the stores; DynamoDB's behind a proxy that makes the emulator as strict as DynamoDB is."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from stream_aws.dynamodb import dynamodb_client
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.tables import TableNames
from stream_core.memory_store import MemoryResponseStore, MemorySessionStore
from tests.integration.aws_emulator import AwsEmulator, aws_emulator
from tests.integration.faulty_dynamodb import FaultyDynamoDB, faulty_dynamodb
from tests.integration.stores.stores import Stores, new_name


@dataclass(frozen=True, slots=True)
class DynamoDBStores(Stores):
    """The stores in DynamoDB, with the proxy that they call and the retries that they counted."""

    dynamodb: FaultyDynamoDB
    tables: TableNames
    retries: Counter[str]


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsEmulator]:
    """One emulator for all tests of this folder."""
    with aws_emulator(tmp_path_factory.mktemp("emulator") / "emulator.log") as running:
        yield running


@pytest.fixture
async def dynamodb_stores(emulator: AwsEmulator, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DynamoDBStores]:
    """The stores on tables of their own; a request that DynamoDB itself would refuse fails the test."""
    tables = emulator.create_tables(new_name("test"))
    async with faulty_dynamodb(emulator.endpoint) as dynamodb:
        for name, value in (emulator.environment | dynamodb.environment).items():
            monkeypatch.setenv(name, value)
        retries: Counter[str] = Counter()

        def on_retry() -> None:
            retries["made again"] += 1

        async with dynamodb_client(connections=32) as client:
            yield DynamoDBStores(
                DynamoDBResponseStore(client, tables.responses, on_retry),
                DynamoDBSessionStore(client, tables, on_retry),
                dynamodb,
                tables,
                retries,
            )
        assert dynamodb.refused == []


@pytest.fixture(params=["memory", "dynamodb"])
def stores(request: pytest.FixtureRequest) -> Stores:
    """The stores of each implementation."""
    if request.param == "dynamodb":
        chosen: Stores = request.getfixturevalue("dynamodb_stores")
        return chosen
    responses = MemoryResponseStore()
    return Stores(responses, MemorySessionStore(responses))
