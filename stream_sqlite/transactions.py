"""Transactions on one connection, with what goes into each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evenflow.stream_core.stores.response_store import LeaseLost, StoreUnavailable
from evenflow.stream_core.stores.session_store import NotAccepted
from evenflow.stream_core.tenants.tenant_store import TenantChanged
from evenflow.stream_sqlite.file import LOG_BYTES, connect
from evenflow.stream_sqlite.reserve import Reserve

T = TypeVar("T")
A = TypeVar("A")
Operation = Callable[[sqlite3.Connection], T]
"""A function that runs in a transaction. It may run again if the transaction was rolled back."""
JoinedOperation = Callable[[sqlite3.Connection, Sequence[A]], Sequence[T | Exception]]
"""The same for many calls: it takes the argument of each, and returns each result or exception."""

# With fewer free bytes on the disk a write may fail for lack of room: the write-ahead log, and a
# large text.
_WRITE_BYTES = 2 * LOG_BYTES
# An operation raises these before it has written anything.
_REFUSALS = (LeaseLost, NotAccepted, TenantChanged)


@dataclass(frozen=True, slots=True, eq=False)
class StoreCall:
    """One call of an operation.

    Args:
        argument: of this call.
        durable: whether the result must survive a power cut. All results survive the process.
        urgent: whether it comes before other writes that wait.
    """

    operation: JoinedOperation[Any, Any]
    argument: Any = None
    durable: bool = False
    urgent: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # What dataclasses do by themselves takes several times as long.
        return StoreCall, (self.operation, self.argument, self.durable, self.urgent)


def single(operation: Operation[T]) -> JoinedOperation[None, T]:
    """An operation that is joined with no other call."""
    return partial(_alone, operation=operation)


class Transactions:
    """A connection, opened when it is first needed.

    Args:
        path: the file, after `prepare`.
        writes: whether operations may write.
    """

    def __init__(self, path: Path, *, writes: bool) -> None:
        self._path = path
        self._writes = writes
        self._connection: sqlite3.Connection | None = None
        # A transaction that begins as a reader may be refused when it writes.
        self._begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        self._synchronous = ""

    def run(self, calls: Sequence[StoreCall]) -> list[object]:
        """Run calls in one transaction, those of one operation together.

        Returns:
            The result of each call once the transaction is committed, or the exception that its
            operation raised, or StoreUnavailable when the file could not be read or written.
        """
        try:
            return self._commit(calls)
        except sqlite3.Error as error:
            # Another program may have filled the disk: the reserve is room to go on.
            if self._writes and Reserve(self._path).release(_WRITE_BYTES):
                return self.run(calls)
            unavailable = StoreUnavailable(f"EVENFLOW_STORE_PATH={self._path}: {error}")
            return [unavailable] * len(calls)
        except Exception as error:
            # One failing operation must not keep the others out.
            return (
                [error]
                if len(calls) == 1
                else [outcome for call in calls for outcome in self.run([call])]
            )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _commit(self, calls: Sequence[StoreCall]) -> list[object]:
        connection = self._connection or self._open()
        self._synchronize(connection, durable=any(call.durable for call in calls))
        connection.execute(self._begin)
        try:
            outcomes: dict[StoreCall, object] = {}
            for operation, together in _by_operation(calls).items():
                results = operation(connection, [call.argument for call in together])
                outcomes |= zip(together, results, strict=True)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return [outcomes[call] for call in calls]

    def _open(self) -> sqlite3.Connection:
        connection = connect(self._path)
        if not self._writes:
            connection.execute("PRAGMA query_only=ON")
        self._connection = connection
        return connection

    def _synchronize(self, connection: sqlite3.Connection, *, durable: bool) -> None:
        """Make a durable commit wait for the disk, with all commits before it."""
        level = "FULL" if durable else "NORMAL"
        if self._synchronous != level:
            connection.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level


def _alone(
    connection: sqlite3.Connection, _arguments: Sequence[None], operation: Operation[T]
) -> Sequence[T | Exception]:
    try:
        return [operation(connection)]
    except _REFUSALS as refusal:
        return [refusal]


def _by_operation(calls: Sequence[StoreCall]) -> dict[JoinedOperation[Any, Any], list[StoreCall]]:
    """The calls in their order, those of one operation together at the first one's place."""
    together: dict[JoinedOperation[Any, Any], list[StoreCall]] = {}
    for call in calls:
        together.setdefault(call.operation, []).append(call)
    return together
