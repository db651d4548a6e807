"""What tasks do for tenants, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import partial
from sqlite3 import Connection

from evenflow.stream_core.tenants.tenant_activity import KEPT_SECONDS, Activity
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes

_COLUMNS = (
    "tenant, task, service, requests, input_tokens, output_tokens, answers, connections, expected"
)


class SQLiteTenantActivity:
    """The activity of tenants in SQLite (`TenantActivity`)."""

    def __init__(self, writes: Writes, reads: Reads) -> None:
        self._writes = writes
        self._reads = reads

    async def note(self, rows: Sequence[Activity], now: float) -> None:
        await self._writes.run(partial(_note, rows=rows, now=now))

    async def of(self, tenants: Sequence[str], now: float) -> Sequence[Activity]:
        return await self._reads.run(partial(_of, tenants=tenants, now=now))


def _note(connection: Connection, rows: Sequence[Activity], now: float) -> None:
    connection.executemany(
        f"INSERT OR REPLACE INTO tenant_activity ({_COLUMNS}, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*astuple(row), now + KEPT_SECONDS) for row in rows],
    )


def _of(connection: Connection, tenants: Sequence[str], now: float) -> list[Activity]:
    return [
        Activity(*row)
        for tenant in set(tenants)
        for row in connection.execute(
            f"SELECT {_COLUMNS} FROM tenant_activity WHERE tenant = ? AND expires_at > ?",
            (tenant, now),
        )
    ]
