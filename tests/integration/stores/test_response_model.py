"""Owners, readers and the stores in memory and in DynamoDB, side by side: whatever happens, they answer alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest
from aiobotocore.session import AioSession
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from stream_aws.dynamodb import Client
from stream_aws.dynamodb_response_store import DynamoDBResponseStore
from stream_aws.dynamodb_session_store import DynamoDBSessionStore
from stream_aws.tables import TableNames
from stream_core.response_store import ResponseStore
from stream_core.session_store import SessionStore
from tests.integration.dynamodb_emulator import threaded_dynamodb_emulator
from tests.integration.stores.stores import new_name
from tests.response_model.implementations import Calls, Implementation, InMemory, T
from tests.response_model.machine import ResponseMachine

_PLAYS = settings(
    max_examples=40,
    stateful_step_count=50,
    derandomize=True,
    phases=[Phase.generate],  # what fails is not made shorter, which would take minutes
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


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


@pytest.fixture(scope="module")
def implement() -> Iterator[Callable[[], Sequence[Implementation]]]:
    """Makes stores of both kinds."""
    with threaded_dynamodb_emulator() as emulator, asyncio.Runner() as runner:
        opening = emulator.asynchronous_client(AioSession())
        client = runner.run(opening.__aenter__())
        try:
            yield lambda: [InMemory(), InDynamoDB(client, emulator.create_tables(new_name("model")), runner)]
        finally:
            runner.run(opening.__aexit__(None, None, None))
        assert emulator.refused == []


def test_both_stores_answer_alike_whatever_happens(implement: Callable[[], Sequence[Implementation]]) -> None:
    class BothStores(ResponseMachine):
        def implement(self) -> Sequence[Implementation]:
            return implement()

    run_state_machine_as_test(BothStores, settings=_PLAYS)
