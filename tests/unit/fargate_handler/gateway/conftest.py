"""What several tests here stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from tests.unit.settle import settle


@pytest.fixture
async def tasks_end_with_the_test(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Connections and copies are left as they are when a test is over."""
    yield
    # A copy that ends is lost to its readers, and they would have another one made.
    monkeypatch.setattr(ClientConnection, "find_replica", lambda *_: None)
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in left:
            task.cancel()
        await settle()
