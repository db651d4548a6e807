"""Work that is begun and not waited for, and that ends with whoever began it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from stream_core.ports.response_store import StoreUnavailable
from stream_core.protocol.errors import EvenflowError

T = TypeVar("T")

_logger = logging.getLogger(__name__)

# Work that doesn't end when it is cancelled must not keep the process.
_PATIENCE_SECONDS = 5.0


class Background:
    """The running tasks of one owner. The event loop itself wouldn't hold on to them.

    Unlike `asyncio.TaskGroup`, one that fails doesn't end the others: its error is logged.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` to its end, whether or not somebody goes on waiting for it.

        Errors that clients see, and those of the store, are the caller's. Behind `aclose`, the task
        is cancelled before it begins.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        if self._closed:
            task.cancel()
        return task

    async def aclose(self) -> None:
        """Cancel what runs, and return when it has ended."""
        self._closed = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            _, left = await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
            if left:
                _logger.error("work in the background doesn't end: %s", left)
                return

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EvenflowError | StoreUnavailable):
            _logger.error("work in the background failed", exc_info=error)
