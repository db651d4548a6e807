"""Owners, readers and the store in memory, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.response_model.implementations import InMemory
from tests.response_model.machine import ResponseMachine


def test_owners_readers_and_the_store_whatever_happens() -> None:
    run_state_machine_as_test(
        lambda: ResponseMachine(lambda: [InMemory()]),
        settings=settings(max_examples=500, stateful_step_count=60, derandomize=True),
    )
