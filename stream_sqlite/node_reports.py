"""The reports of nodes, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from sqlite3 import Connection

from evenflow.stream_core.upstream.node_reports import KEPT_SECONDS, NodeReport
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes


class SQLiteNodeReports:
    """Reports in SQLite (`NodeReports`)."""

    def __init__(self, writes: Writes, reads: Reads) -> None:
        self._writes = writes
        self._reads = reads

    async def publish(self, report: NodeReport, now: float) -> None:
        await self._writes.run(
            partial(
                _publish,
                node=report.node,
                report=report.to_text(),
                expires_at=now + KEPT_SECONDS,
            )
        )

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        return await self._reads.run(partial(_read_all, now=now))


def _publish(connection: Connection, node: str, report: str, expires_at: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO task_calls VALUES (?, ?, ?)", (node, report, expires_at)
    )


def _read_all(connection: Connection, now: float) -> list[NodeReport]:
    query = "SELECT row FROM task_calls WHERE expires_at > ?"
    return [NodeReport.from_text(text) for (text,) in connection.execute(query, (now,))]
