"""Owners, readers and the stores in memory, in a file and in DynamoDB, side by side: whatever
happens, they answer alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from aiobotocore.session import AioSession
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from evenflow.stream_aws.dynamodb import Client
from evenflow.stream_aws.dynamodb_response_store import DynamoDBResponseStore
from evenflow.stream_aws.dynamodb_session_store import DynamoDBSessionStore
from evenflow.stream_aws.tables import TableNames
from evenflow.stream_core.stores.response_store import ResponseStore
from evenflow.stream_core.stores.session_store import SessionStore
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.dynamodb_emulator import threaded_dynamodb_emulator
from tests.integration.stores.stores import new_name
from tests.response_model.implementations import Calls, Implementation, InMemory, T
from tests.response_model.machine import ResponseMachine
from tests.response_model.system import BEGAN_AT

_PLAYS = settings(
    max_examples=settings().max_examples // 2,
    stateful_step_count=50,
    phases=[Phase.generate],  # what fails is not made shorter, which would take minutes
)

pytestmark = pytest.mark.hypothesis


class InDynamoDB:
    """The stores in these tables, which are empty."""

    def __init__(self, client: Client, tables: TableNames, runner: asyncio.Runner) -> None:
        self._client = client
        self._tables = tables
        self._runner = runner
        self.sessions: SessionStore = DynamoDBSessionStore(client, tables, lambda: None)

    def responses_of_a_task(self) -> ResponseStore:
        """See `Implementation`."""
        return DynamoDBResponseStore(self._client, self._tables.responses, lambda: None)

    def run(self, call: Calls[T]) -> T:
        """See `Implementation`."""
        return self._runner.run(call)


class InAFile:
    """The stores in a file, which each task has opened."""

    def __init__(self, path: Path, runner: asyncio.Runner, opened: ExitStack) -> None:
        self._path = path
        self._runner = runner
        self._opened = opened
        self.sessions: SessionStore = self._open().sessions

    def responses_of_a_task(self) -> ResponseStore:
        """See `Implementation`."""
        return self._open().responses

    def run(self, call: Calls[T]) -> T:
        """See `Implementation`."""
        return self._runner.run(call)

    def _open(self) -> SQLiteStores:
        return self._opened.enter_context(closing(SQLiteStores(self._path, lambda: BEGAN_AT)))


@pytest.fixture
def implement_in_files(tmp_path: Path) -> Iterator[Callable[[], Sequence[Implementation]]]:
    """Makes stores in memory and in files."""
    with asyncio.Runner() as runner, ExitStack() as opened:

        def implement() -> Sequence[Implementation]:
            opened.close()
            return [InMemory(), InAFile(tmp_path / f"{new_name('model')}.db", runner, opened)]

        yield implement


@pytest.fixture(scope="module")
def implement() -> Iterator[Callable[[], Sequence[Implementation]]]:
    """Makes stores in memory and in DynamoDB."""
    with threaded_dynamodb_emulator() as emulator, asyncio.Runner() as runner:
        opening = emulator.asynchronous_client(AioSession())
        client = runner.run(opening.__aenter__())
        try:
            yield lambda: [
                InMemory(),
                InDynamoDB(client, emulator.create_tables(new_name("model")), runner),
            ]
        finally:
            runner.run(opening.__aexit__(None, None, None))
        assert emulator.refused == []


def test_a_file_answers_like_memory_whatever_happens(
    implement_in_files: Callable[[], Sequence[Implementation]],
) -> None:
    class BothStores(ResponseMachine):
        def implement(self) -> Sequence[Implementation]:
            return implement_in_files()

    run_state_machine_as_test(BothStores, settings=_PLAYS)


def test_dynamodb_answers_like_memory_whatever_happens(
    implement: Callable[[], Sequence[Implementation]],
) -> None:
    class BothStores(ResponseMachine):
        def implement(self) -> Sequence[Implementation]:
            return implement()

    run_state_machine_as_test(BothStores, settings=_PLAYS)
