"""The emulator, with and without its wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dynamodb_emulator.direct_client import DirectClient
from tests.dynamodb_emulator.process import DynamoDBEmulator, dynamodb_emulator


@pytest.fixture
def dynamodb() -> DirectClient:
    """An empty one, without a wire."""
    return DirectClient()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBEmulator]:
    """One in a process of its own, for all tests."""
    with dynamodb_emulator(tmp_path_factory.mktemp("emulator") / "emulator.log") as emulator:
        yield emulator


@pytest.fixture
def emulator(running: DynamoDBEmulator) -> Iterator[DynamoDBEmulator]:
    """The same; the faults of a test end with it."""
    yield running
    running.set_faults()
