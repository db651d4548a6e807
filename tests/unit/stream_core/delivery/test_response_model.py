"""Owners, readers and the store in memory, whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.response_model.machine import ResponseMachine


@pytest.mark.hypothesis
@pytest.mark.timeout(300)  # it takes seconds, but what fails is made shorter, which takes minutes
def test_owners_readers_and_the_store_whatever_happens() -> None:
    run_state_machine_as_test(
        ResponseMachine,
        settings=settings(max_examples=2 * settings().max_examples, stateful_step_count=60),
    )
