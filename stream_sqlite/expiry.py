"""Deletes what has expired, a little at a time."""

from __future__ import annotations

from sqlite3 import Connection

from evenflow.stream_sqlite.file import EXPIRING

# So 2,000 rows of each table go in a second, more than come for long.
_PAUSE_SECONDS = 0.25
# Of each table. A response takes its chunks with it, and other operations wait for the transaction.
_ROWS_AT_ONCE = 500


class Expiry:
    """When expired rows are deleted. Readers never see them, deleted or not."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time, at `now` (seconds since the epoch). If so, it isn't for a while."""
        if now < self._not_before:
            return False
        self._not_before = now + _PAUSE_SECONDS
        return True


def delete_expired(connection: Connection, now: float) -> None:
    """Delete some rows that had expired at `now`."""
    for table in EXPIRING:
        rows = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}"
        connection.execute(f"DELETE FROM {table} WHERE rowid IN ({rows})", (now,))
