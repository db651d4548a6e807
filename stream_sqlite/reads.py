"""Reads in a thread of their own. The event loop never waits for the disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_sqlite.outcomes import Outcomes
from evenflow.stream_sqlite.transactions import Operation, StoreCall, T, Transactions, single


@dataclass(frozen=True, slots=True)
class _PendingRead:
    call: StoreCall
    future: asyncio.Future[Any]


class Reads:
    """One connection and its thread. All pending reads share the next transaction.

    All calls must come from one event loop.

    Args:
        path: the file, after `prepare`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = Outcomes(path)
        self._queue: SimpleQueue[_PendingRead | None] = SimpleQueue()
        self.open()

    def open(self) -> None:
        """Accept reads, for the first time or after `close`."""
        self._closed: str | None = None
        self._transactions = Transactions(self._path, writes=False)
        self._thread = Thread(target=self._work, name="sqlite-reads", daemon=True)
        self._thread.start()

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation.

        Raises:
            StoreUnavailable: the file could not be read.
            Exception: whatever the operation raised.
        """
        if self._closed is not None:
            raise StoreUnavailable(self._closed)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_PendingRead(StoreCall(single(operation)), future))
        return await future

    def close(self, why: str | None = None) -> None:
        """Finish the pending reads, and close the connection.

        Args:
            why: the error of later reads.
        """
        if self._closed is None:
            self._queue.put(None)
            self._thread.join()
        self._closed = why or f"{self._path} is closed"

    def _work(self) -> None:
        going_on = True
        while going_on:
            batch = self._next_reads()
            going_on = None not in batch
            if reads := [read for read in batch if read is not None]:
                self._run_batch(reads)
        self._transactions.close()

    def _next_reads(self) -> list[_PendingRead | None]:
        """All pending reads, one at least. None: `close` was called."""
        batch = [self._queue.get()]
        with suppress(Empty):
            while True:
                batch.append(self._queue.get_nowait())
        return batch

    def _run_batch(self, reads: list[_PendingRead]) -> None:
        """Run the reads, and wake the event loop once for all of them."""
        outcomes = self._transactions.run([read.call for read in reads])
        # The loop may have ended meanwhile; then the results are not needed.
        with suppress(RuntimeError):
            reads[0].future.get_loop().call_soon_threadsafe(self._hand_out, reads, outcomes)

    def _hand_out(self, reads: list[_PendingRead], outcomes: list[object]) -> None:
        for read, outcome in zip(reads, outcomes, strict=True):
            self._outcomes.hand_out(read.future, outcome)
