"""Deletes what has expired, and gives free pages back, a little at a time."""

from __future__ import annotations

from collections import Counter
from sqlite3 import Connection
from typing import Any

from evenflow.stream_sqlite.file import EXPIRING, FileState, file_state
from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES, Holder, add_kept, delete_text

# Rows of one table in one transaction, which other operations wait for. A response's chunks are
# deleted with it.
_ROWS_AT_ONCE = 500
# Bytes of large texts in one transaction. Some builds of SQLite overwrite each page they free.
_BYTES_AT_ONCE = 4_194_304
# Bytes that stay free for the next writes, beside a quarter of the bytes in use.
_SPARE_BYTES = 4_194_304
# Pages given back in one transaction. The last pages of the file are moved first, so each of these
# is a write.
_PAGES_AT_ONCE = 256
# When expired rows of these tables are deleted, they are counted or measured.
_COUNTED = ("messages", "responses", "usage_records", "large_texts")


def tidy(connection: Connection, now: float) -> tuple[FileState, bool]:
    """Delete some of what had expired at `now`, and give some of the free pages back.

    Returns:
        The file as it is afterwards, and whether there is more to do.
    """
    has_more_rows = delete_expired(connection, now)
    before = file_state(connection)
    spare_bytes = before.free_bytes - _SPARE_BYTES - before.used_bytes // 4
    pages = max(0, min(_PAGES_AT_ONCE, spare_bytes // before.page_bytes))
    for _ in range(pages):
        # Python ends a statement without columns after its first step, which frees one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    after = file_state(connection)
    return after, has_more_rows or after.pages < before.pages


def delete_expired(connection: Connection, now: float) -> bool:
    """Delete some rows that had expired at `now`. Returns whether there may be more."""
    messages = _delete(connection, "messages", now, "channel, sender, bytes")
    usage_records = _delete(connection, "usage_records", now, "tenant")
    responses = _delete(connection, "responses", now, "channel, message_id")
    changes: Counter[Holder] = Counter()
    for channel, sender, size in messages:
        changes[Holder.of(channel, sender)] -= size
    for (tenant,) in usage_records:
        changes[Holder(tenant, "")] -= USAGE_BYTES
    add_kept(connection, changes)
    for channel, message_id in responses:
        delete_text(connection, channel, message_id)
    has_more_texts = _delete_large_texts(connection, now)
    uncounted = (
        _delete(connection, table, now, "1") for table in EXPIRING if table not in _COUNTED
    )
    most_rows = max(map(len, (messages, usage_records, responses, *uncounted)))
    return has_more_texts or most_rows == _ROWS_AT_ONCE


def _delete(connection: Connection, table: str, now: float, returned: str) -> list[Any]:
    rows = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}"
    return connection.execute(
        f"DELETE FROM {table} WHERE rowid IN ({rows}) RETURNING {returned}", (now,)
    ).fetchall()


def _delete_large_texts(connection: Connection, now: float) -> bool:
    """Delete some expired texts. Returns whether there may be more."""
    expired = connection.execute(
        "SELECT name, length(text) + ifnull(length(packed), 0) FROM large_texts "
        f"WHERE expires_at <= ? LIMIT {_ROWS_AT_ONCE}",
        (now,),
    ).fetchall()
    bytes_left, names = _BYTES_AT_ONCE, list[tuple[str]]()
    for name, size in expired:
        if bytes_left < 0:
            break
        bytes_left -= size
        names.append((name,))
    connection.executemany("DELETE FROM large_texts WHERE name = ?", names)
    return len(names) < len(expired) or len(names) == _ROWS_AT_ONCE
