"""Background tasks that end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.stores.response_store import StoreUnavailable

T = TypeVar("T")

_logger = logging.getLogger(__name__)

# A task that doesn't end when it is cancelled must not keep the process.
_PATIENCE_SECONDS = 5.0


class Background:
    """The running tasks of one owner. The event loop alone would keep no references to them.

    Unlike in `asyncio.TaskGroup`, a failed task doesn't end the others: its error is logged.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` to its end, whether or not a caller awaits it.

        Errors for clients and of the store are not logged: the caller has them. After `aclose` the
        task is cancelled before it begins.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        if self._closed:
            task.cancel()
        return task

    async def aclose(self) -> None:
        """Cancel all tasks, and return when they have ended."""
        self._closed = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            _, unfinished = await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
            if unfinished:
                _logger.error("background tasks don't end: %s", unfinished)
                return

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EvenflowError | StoreUnavailable):
            _logger.error("a background task failed", exc_info=error)
