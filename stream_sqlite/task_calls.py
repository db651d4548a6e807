"""Which calls tasks make, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from sqlite3 import Connection

from stream_core.ports.task_calls import KEPT_SECONDS, TaskCalls
from stream_sqlite.transactions import Transactions


class SQLiteCallsOfTasks:
    """The calls of tasks in SQLite (`CallsOfTasks`)."""

    def __init__(self, writes: Transactions, reads: Transactions) -> None:
        self._writes = writes
        self._reads = reads

    async def tell(self, row: TaskCalls, now: float) -> None:
        await self._writes.run(partial(_tell, row=row, now=now))

    async def all(self, now: float) -> Sequence[TaskCalls]:
        return await self._reads.run(partial(_all, now=now))


def _tell(connection: Connection, row: TaskCalls, now: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO task_calls VALUES (?, ?, ?)",
        (row.task, row.to_text(), now + KEPT_SECONDS),
    )


def _all(connection: Connection, now: float) -> list[TaskCalls]:
    query = "SELECT row FROM task_calls WHERE expires_at > ?"
    return [TaskCalls.from_text(text) for (text,) in connection.execute(query, (now,))]
