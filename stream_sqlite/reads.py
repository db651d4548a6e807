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
from evenflow.stream_sqlite.transactions import Call, Operation, T, Transactions, single


@dataclass(frozen=True, slots=True)
class _Asked:
    call: Call
    answer: asyncio.Future[Any]


class Reads:
    """One connection and its thread. All reads that wait share the next transaction.

    All calls must come from one event loop.

    Args:
        path: the file, after `prepare`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = Outcomes(path)
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
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
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.put(_Asked(Call(single(operation)), answer))
        return await answer

    def close(self, why: str | None = None) -> None:
        """Finish the reads that wait, and close the connection.

        Args:
            why: the error of later reads.
        """
        if self._closed is None:
            self._asked.put(None)
            self._thread.join()
        self._closed = why or f"{self._path} is closed"

    def _work(self) -> None:
        going_on = True
        while going_on:
            together = self._all_asked()
            going_on = None not in together
            if asked := [it for it in together if it is not None]:
                self._answer(asked)
        self._transactions.close()

    def _all_asked(self) -> list[_Asked | None]:
        """All reads that wait, one at least. None: there are no more."""
        together = [self._asked.get()]
        with suppress(Empty):
            while True:
                together.append(self._asked.get_nowait())
        return together

    def _answer(self, asked: list[_Asked]) -> None:
        """Wake the event loop once for all of them."""
        outcomes = self._transactions.run([it.call for it in asked])
        # The loop may have ended meanwhile, and then nobody waits.
        with suppress(RuntimeError):
            asked[0].answer.get_loop().call_soon_threadsafe(self._hand_out, asked, outcomes)

    def _hand_out(self, asked: list[_Asked], outcomes: list[object]) -> None:
        for it, outcome in zip(asked, outcomes, strict=True):
            self._outcomes.hand_out(it.answer, outcome)
