"""Deletes what has expired, a little at a time."""

from __future__ import annotations

from sqlite3 import Connection

from stream_sqlite.file import EXPIRING

_PAUSE_SECONDS = 10.0
# Of each table. A response takes its chunks with it, and other operations wait for the transaction.
_ROWS_AT_ONCE = 500


class Expiry:
    """Deletes expired rows, every few seconds at most. Readers never see them, deleted or not."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def delete_some(self, connection: Connection, now: float) -> None:
        """Delete some rows that had expired at `now` (seconds since the epoch), if it is time."""
        if now < self._not_before:
            return
        deleted = max(_delete(connection, table, now) for table in EXPIRING)
        # Where more rows have expired, the next call goes on.
        self._not_before = now if deleted == _ROWS_AT_ONCE else now + _PAUSE_SECONDS


def _delete(connection: Connection, table: str, now: float) -> int:
    rows = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}"
    return connection.execute(f"DELETE FROM {table} WHERE rowid IN ({rows})", (now,)).rowcount
