"""Deletes what has expired, and gives free pages back, a little at a time."""

from __future__ import annotations

from collections import Counter
from sqlite3 import Connection
from typing import Any

from evenflow.stream_sqlite.file import EXPIRING, FileState, file_state
from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES, Holder, add_kept, delete_text

# Of each table. A response takes its chunks with it, and other operations wait for the transaction.
_ROWS_AT_ONCE = 500
# Of large texts: each page of one is written, where SQLite is built to overwrite what is deleted.
_BYTES_AT_ONCE = 4_194_304
# So many stay free for what comes next, and a quarter of those that are used.
_SPARE_BYTES = 4_194_304
# The last page of the file is written elsewhere first. Many at once are written twice.
_PAGES_AT_ONCE = 256
# Rows of these are looked at when they are deleted.
_COUNTED = ("messages", "responses", "usage_records", "large_texts")


def tidy(connection: Connection, now: float) -> tuple[FileState, bool]:
    """Delete some of what had expired at `now`, and give some of the free pages back.

    Returns:
        The file as it is afterwards, and whether there is more to do.
    """
    most = delete_expired(connection, now)
    before = file_state(connection)
    spare = before.free_bytes - _SPARE_BYTES - before.used_bytes // 4
    pages = max(0, min(_PAGES_AT_ONCE, spare // before.page_bytes))
    for _ in range(pages):
        # Python ends a statement without columns after its first step, which is a page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    after = file_state(connection)
    return after, most == _ROWS_AT_ONCE or after.pages < before.pages


def delete_expired(connection: Connection, now: float) -> int:
    """Delete some rows that had expired at `now`. Returns how many of the table with most."""
    messages = _delete(connection, "messages", now, "channel, sender, bytes")
    usage = _delete(connection, "usage_records", now, "tenant")
    responses = _delete(connection, "responses", now, "channel, message_id")
    gone: Counter[Holder] = Counter()
    for channel, sender, size in messages:
        gone[Holder.of(channel, sender)] -= size
    for (tenant,) in usage:
        gone[Holder(tenant, "")] -= USAGE_BYTES
    add_kept(connection, gone)
    for channel, message_id in responses:
        delete_text(connection, channel, message_id)
    others = (table for table in EXPIRING if table not in _COUNTED)
    return max(
        *map(len, (messages, usage, responses)),
        *(len(_delete(connection, table, now, "1")) for table in others),
        _delete_large_texts(connection, now),
    )


def _delete(connection: Connection, table: str, now: float, returned: str) -> list[Any]:
    rows = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}"
    return connection.execute(
        f"DELETE FROM {table} WHERE rowid IN ({rows}) RETURNING {returned}", (now,)
    ).fetchall()


def _delete_large_texts(connection: Connection, now: float) -> int:
    """Delete expired texts. Returns `_ROWS_AT_ONCE` if there may be more."""
    expired = connection.execute(
        "SELECT name, length(text) + ifnull(length(packed), 0) FROM large_texts "
        f"WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}",
        (now,),
    ).fetchall()
    left, names = _BYTES_AT_ONCE, list[tuple[str]]()
    for name, size in expired:
        if left < 0:
            break
        left -= size
        names.append((name,))
    connection.executemany("DELETE FROM large_texts WHERE name = ?", names)
    return _ROWS_AT_ONCE if len(names) < len(expired) else len(names)
