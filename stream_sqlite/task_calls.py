"""Which calls tasks make, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from sqlite3 import Connection

from evenflow.stream_core.upstream.task_calls import KEPT_SECONDS, TaskCalls
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes


class SQLiteCallsOfTasks:
    """The calls of tasks in SQLite (`CallsOfTasks`)."""

    def __init__(self, writes: Writes, reads: Reads) -> None:
        self._writes = writes
        self._reads = reads

    async def tell(self, row: TaskCalls, now: float) -> None:
        await self._writes.run(
            partial(_tell, task=row.task, row=row.to_text(), expires_at=now + KEPT_SECONDS)
        )

    async def all(self, now: float) -> Sequence[TaskCalls]:
        return await self._reads.run(partial(_all, now=now))


def _tell(connection: Connection, task: str, row: str, expires_at: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO task_calls VALUES (?, ?, ?)", (task, row, expires_at)
    )


def _all(connection: Connection, now: float) -> list[TaskCalls]:
    query = "SELECT row FROM task_calls WHERE expires_at > ?"
    return [TaskCalls.from_text(text) for (text,) in connection.execute(query, (now,))]
