"""Transactions in a thread of their own. The event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from stream_core.ports.response_store import LeaseLost, StoreUnavailable
from stream_core.ports.session_store import NotAccepted
from stream_core.ports.tenant_store import TenantChanged
from stream_sqlite.file import connect

_logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")
Operation = Callable[[sqlite3.Connection], T]
"""A function that runs in a transaction. It may run again if the transaction was rolled back."""
JoinedOperation = Callable[[sqlite3.Connection, Sequence[A]], Sequence[T | Exception]]
"""The same for many calls: it takes the argument of each, and returns each result or exception."""

# So many other writes come between urgent ones, or a quarter of those that wait.
_FEW = 2

# An operation raises these before it has written anything.
_REFUSALS = (LeaseLost, NotAccepted, TenantChanged)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    operation: JoinedOperation[Any, Any]
    argument: Any
    durable: bool
    answer: asyncio.Future[Any]
    urgent: bool


class Transactions:
    """One connection and its thread. Operations that wait share the next transaction: all reads,
    all urgent writes, or a few other writes.

    All calls must come from one event loop.

    Args:
        path: the file, after `prepare`.
        writes: whether operations may write.

    Raises:
        sqlite3.Error: the file can't be opened.
    """

    def __init__(self, path: Path, *, writes: bool) -> None:
        self._path = path
        self._connection = connect(path)
        self._writes = writes
        # A transaction that begins as a reader may be refused when it writes.
        self._begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        if not writes:
            self._connection.execute("PRAGMA query_only=ON")
        self._synchronous = ""
        self._failing = False
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(
            target=self._work, name=f"sqlite-{'writes' if writes else 'reads'}", daemon=True
        )
        self._thread.start()

    async def run(
        self, operation: Operation[T], *, durable: bool = False, urgent: bool = False
    ) -> T:
        """Run an operation. Returns its result once the transaction is committed.

        Args:
            durable: whether the result must survive a power cut. All results survive the process.
            urgent: as of `run_together`.

        Raises:
            StoreUnavailable: the file could not be read or written.
            Exception: whatever the operation raised.
        """
        return await self.run_together(_alone(operation), None, durable=durable, urgent=urgent)

    async def run_together(
        self,
        operation: JoinedOperation[A, T],
        argument: A,
        *,
        durable: bool = False,
        urgent: bool = False,
    ) -> T:
        """Run an operation once for all calls of it that share a transaction.

        After each statement the thread waits for the event loop, milliseconds where that is busy.
        A few statements for all are then much quicker than a few for each.

        Args:
            argument: of this call.
            durable: whether the result must survive a power cut. All results survive the process.
            urgent: whether it comes before other writes that wait. A few of those come after it.

        Returns:
            The result of this call, once the transaction is committed.

        Raises:
            StoreUnavailable: the file could not be read or written.
            Exception: whatever the operation raised, or returned for this call.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._path} is closed")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.put(_Asked(operation, argument, durable, answer, urgent))
        return await answer

    def close(self) -> None:
        """Finish the operations that wait, and close the connection."""
        self._closed = True
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        others: list[_Asked] = []
        closing = False
        while others or not closing:
            came = self._all_asked(wait=not others)
            closing = closing or None in came
            asked = [it for it in came if it is not None]
            others += [it for it in asked if not it.urgent]
            # Of reads none is urgent.
            few = max(_FEW, len(others) // 4) if self._writes else len(others)
            for batch in ([it for it in asked if it.urgent], others[:few]):
                if batch:
                    _answer(batch, self._do(batch))
            del others[:few]
        self._connection.close()

    def _all_asked(self, *, wait: bool) -> list[_Asked | None]:
        """All operations that wait. None: there are no more. `wait`: until there is one."""
        together = [self._asked.get()] if wait else []
        with suppress(Empty):
            while True:
                together.append(self._asked.get_nowait())
        return together

    def _do(self, batch: list[_Asked]) -> list[object]:
        """The result of each operation, or its exception."""
        try:
            outcomes = self._commit(batch)
            self._failing = False
            return outcomes
        except sqlite3.Error as error:
            if not self._failing:
                _logger.error("%s can't be used: %s; every call tries it again", self._path, error)
            self._failing = True
            unavailable = StoreUnavailable(f"EVENFLOW_STORE_PATH={self._path}: {error}")
            unavailable.__cause__ = error
            return [unavailable] * len(batch)
        except Exception as error:
            # One failing operation must not keep the others out.
            return (
                [error]
                if len(batch) == 1
                else [outcome for asked in batch for outcome in self._do([asked])]
            )

    def _commit(self, batch: list[_Asked]) -> list[object]:
        connection = self._connection
        self._synchronize(durable=any(asked.durable for asked in batch))
        connection.execute(self._begin)
        try:
            outcomes: dict[_Asked, object] = {}
            for operation, together in _by_operation(batch).items():
                found = operation(connection, [asked.argument for asked in together])
                outcomes |= zip(together, found, strict=True)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return [outcomes[asked] for asked in batch]

    def _synchronize(self, *, durable: bool) -> None:
        """Make a durable commit wait for the disk, with all commits before it."""
        wanted = "FULL" if durable else "NORMAL"
        if self._synchronous != wanted:
            self._connection.execute(f"PRAGMA synchronous={wanted}")
            self._synchronous = wanted


def _alone(operation: Operation[T]) -> JoinedOperation[None, T]:
    """An operation that is joined with no other call."""

    def joined(
        connection: sqlite3.Connection, _arguments: Sequence[None]
    ) -> Sequence[T | Exception]:
        try:
            return [operation(connection)]
        except _REFUSALS as refusal:
            return [refusal]

    return joined


def _by_operation(batch: Sequence[_Asked]) -> dict[JoinedOperation[Any, Any], list[_Asked]]:
    """The calls in their order, those of one operation together at the first one's place."""
    calls: dict[JoinedOperation[Any, Any], list[_Asked]] = {}
    for asked in batch:
        calls.setdefault(asked.operation, []).append(asked)
    return calls


def _answer(batch: list[_Asked], outcomes: list[object]) -> None:
    """Wake the event loop once for all operations."""
    # The loop may have ended meanwhile, and then nobody waits.
    with suppress(RuntimeError):
        batch[0].answer.get_loop().call_soon_threadsafe(_hand_out, batch, outcomes)


def _hand_out(batch: list[_Asked], outcomes: list[object]) -> None:
    for asked, outcome in zip(batch, outcomes, strict=True):
        if asked.answer.done():
            continue
        if isinstance(outcome, Exception):
            asked.answer.set_exception(outcome)
        else:
            asked.answer.set_result(outcome)
