"""What several tests here stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.fargate_handler.orchestrator.recorder_node import Node
from tests.unit.settle import settle


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node that has started; when the test is over, nothing of it is left."""
    node = Node()
    node.recorder.start()
    yield node
    await settle()
    assert not node.recorder.busy
    assert asyncio.all_tasks() == {asyncio.current_task()}
