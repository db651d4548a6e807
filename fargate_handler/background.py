"""Work that a connection's callback begins and doesn't wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from stream_core.errors import EvenflowError
from stream_core.response_store import StoreUnavailable

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Background:
    """Holds on to running tasks, which the event loop itself doesn't, and logs what fails in them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` to its end, whether or not somebody goes on waiting for it; errors that clients see, and those of
        the store, are its caller's."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EvenflowError | StoreUnavailable):
            _logger.error("work in the background failed", exc_info=error)
