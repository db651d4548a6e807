"""The implementations of the stores, DynamoDB's with an emulator that is as strict as DynamoDB
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiobotocore.session import AioSession

from evenflow.stream_aws.dynamodb import Client
from evenflow.stream_aws.dynamodb_node_reports import DynamoDBNodeReports
from evenflow.stream_aws.dynamodb_response_store import DynamoDBResponseStore
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore
from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_aws.tables import TENANTS, TableNames
from evenflow.stream_core.stores.memory_store import MemoryResponseStore, MemorySessionStore
from evenflow.stream_core.stores.response_store import ResponseStore
from evenflow.stream_core.stores.session_store import SessionStore
from evenflow.stream_core.tenants.memory_tenant_store import MemoryTenantStore
from evenflow.stream_core.tenants.tenant_store import TenantStore
from evenflow.stream_core.tenants.usage_store import UsageStore
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from evenflow.stream_core.upstream.node_reports import NodeReports
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.stores.stores import LONG_LIFETIME, NOW, Stores, new_name
from tests.integration.stores.writer_thread import writers_are_threads  # noqa: F401 - a fixture


@dataclass(frozen=True, slots=True)
class DynamoDBStores(Stores):
    """The stores in DynamoDB, with the emulator that they call and the retries that they
    counted.
    """

    client: Client
    dynamodb: DynamoDBEmulator
    tables: TableNames
    retries: Counter[str]
    usage: DynamoDBUsageStore
    tenants: DynamoDBTenantStore
    node_reports: DynamoDBNodeReports

    def of_another_task(self) -> DynamoDBResponseStore:
        """See there."""
        return DynamoDBResponseStore(self.client, self.tables.responses, lambda: None)


@dataclass(frozen=True, slots=True)
class FileStores(Stores):
    """The stores in a file, and those of another process that has it open."""

    usage: UsageStore
    other: SQLiteStores

    def of_another_task(self) -> ResponseStore:
        """See there."""
        return self.other.responses


@pytest.fixture
def two_processes(tmp_path: Path) -> Iterator[tuple[SQLiteStores, SQLiteStores]]:
    """One file, as two processes have it open."""
    path = tmp_path / "evenflow.db"
    with (
        closing(SQLiteStores(path, lambda: NOW)) as one,
        closing(SQLiteStores(path, lambda: NOW)) as other,
    ):
        yield one, other


@pytest.fixture
def sqlite_stores(two_processes: tuple[SQLiteStores, SQLiteStores]) -> FileStores:
    """The stores in a file of their own."""
    one, other = two_processes
    return FileStores(one.responses, one.sessions, one.usage, other)


@pytest.fixture
def memory_stores() -> Stores:
    """The stores in memory."""
    responses = MemoryResponseStore()
    return Stores(responses, MemorySessionStore(responses))


@pytest.fixture(scope="session")
def sdk() -> AioSession:
    """The SDK's session, whose service models are read once."""
    return AioSession()


@pytest.fixture
async def dynamodb_stores(sdk: AioSession) -> AsyncIterator[DynamoDBStores]:
    """The stores in DynamoDB, with tables of their own.

    A request that DynamoDB would refuse fails the test, and so does a read that it may answer with
    the past.
    """
    retries: Counter[str] = Counter()

    def on_retry() -> None:
        retries["made again"] += 1

    async with dynamodb_emulator() as dynamodb, dynamodb.asynchronous_client(sdk) as client:
        tables = dynamodb.create_tables(new_name("test"))
        of_tenants = client, str(tables.tenants), on_retry
        yield DynamoDBStores(
            DynamoDBResponseStore(client, tables.responses, on_retry),
            DynamoDBSessionStore(client, tables, on_retry),
            client,
            dynamodb,
            tables,
            retries,
            DynamoDBUsageStore(*of_tenants),
            DynamoDBTenantStore(*of_tenants),
            DynamoDBNodeReports(*of_tenants),
        )
        assert dynamodb.refused == []
        assert dynamodb.eventual_reads == 0


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """The stores of each implementation. Without faults, no call needs to be made again."""
    chosen: Stores = request.getfixturevalue(f"{request.param}_stores")
    yield chosen
    if isinstance(chosen, DynamoDBStores):
        assert not chosen.retries


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def long_kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    """The sessions of each implementation, with messages of chats kept for `LONG_LIFETIME`."""
    if request.param == "memory":
        yield MemorySessionStore(MemoryResponseStore(), lifetime=LONG_LIFETIME)
    elif request.param == "sqlite":
        with closing(SQLiteStores(tmp_path / "kept.db", lambda: NOW, LONG_LIFETIME)) as opened:
            yield opened.sessions
    else:
        stores: DynamoDBStores = request.getfixturevalue("dynamodb_stores")
        yield DynamoDBSessionStore(stores.client, stores.tables, lambda: None, LONG_LIFETIME)


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def tenants(request: pytest.FixtureRequest) -> TenantStore:
    """The tenants' records of each implementation."""
    if request.param == "memory":
        return MemoryTenantStore()
    if request.param == "sqlite":
        file: FileStores = request.getfixturevalue("sqlite_stores")
        return file.other.tenants
    stores: DynamoDBStores = request.getfixturevalue("dynamodb_stores")
    return DynamoDBTenantStore(stores.client, str(stores.tables.tenants), lambda: None)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that fail every attempt, and not to see how long that takes."""
    monkeypatch.setattr("evenflow.stream_aws.dynamodb._LONGEST_PAUSES", (0.01,) * 5)


@pytest.fixture
async def tenants_table(dynamodb_stores: DynamoDBStores) -> str:
    """The name of a new, empty table of tenants."""
    table = new_name("tenants")
    names = (TENANTS.partition, str(TENANTS.sort))
    await dynamodb_stores.client.create_table(
        TableName=table,
        KeySchema=[
            {"AttributeName": name, "KeyType": kind}
            for name, kind in zip(names, ("HASH", "RANGE"), strict=True)
        ],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        BillingMode="PAY_PER_REQUEST",
    )
    return table


Nodes = tuple[NodeReports, NodeReports]
"""The same reports as two nodes have them."""


@pytest.fixture
def memory_nodes() -> Nodes:
    """Two nodes of one process."""
    reports = MemoryNodeReports()
    return reports, reports


@pytest.fixture
def sqlite_nodes(two_processes: tuple[SQLiteStores, SQLiteStores]) -> Nodes:
    """Two processes with one file."""
    one, other = two_processes
    return one.node_reports, other.node_reports


@pytest.fixture
def dynamodb_nodes(dynamodb_stores: DynamoDBStores, tenants_table: str) -> Nodes:
    """Two nodes with one table."""
    to_table = dynamodb_stores.client, tenants_table, lambda: None
    reports = DynamoDBNodeReports(*to_table)
    return reports, reports


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def nodes(request: pytest.FixtureRequest) -> Nodes:
    """The reports of two nodes in each implementation."""
    chosen: Nodes = request.getfixturevalue(f"{request.param}_nodes")
    return chosen
