"""What several tests here stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from fargate_handler.orchestrator import generation
from tests.unit.fargate_handler.orchestrator.recorder_node import Node
from tests.unit.settle import settle


@pytest.fixture(scope="module")
def no_pause_before_a_retry() -> Iterator[None]:
    """A failed attempt is followed by the next one at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "_RETRY_PAUSE_SECONDS", (0.0, 0.0))
        yield


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node that has started; when the test is over, nothing of it is left."""
    node = Node()
    node.recorder.start()
    yield node
    await settle()
    assert not node.recorder.busy
    assert asyncio.all_tasks() == {asyncio.current_task()}
