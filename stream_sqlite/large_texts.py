"""Large texts in SQLite: compressed, each in a row of its own."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import partial
from sqlite3 import Connection

from evenflow.stream_core.stores.session_store import LARGE_TEXT_SECONDS
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes

PACKED_FROM_BYTES = 16_384
"""The shortest text that is compressed."""

# zlib's fastest level.
_LEVEL = 1
_INLINE_CHARACTERS = 65_536
"""Texts up to this length take less time to compress than to hand to a thread and back."""


class SQLiteLargeTexts:
    """Large texts in SQLite (`LargeTexts`)."""

    def __init__(self, writes: Writes, reads: Reads, wall_time: Callable[[], float]) -> None:
        self._writes = writes
        self._reads = reads
        self._wall_time = wall_time

    async def put(self, name: str, text: str) -> None:
        expires_at = self._wall_time() + LARGE_TEXT_SECONDS
        packed = await pack(text)
        # The acceptance that follows is durable, and makes this durable too.
        await self._writes.run(partial(_put, name=name, packed=packed, expires_at=expires_at))

    async def get(self, name: str) -> str | None:
        text = await self._reads.run(partial(_get, name=name, now=self._wall_time()))
        if isinstance(text, bytes):
            return await asyncio.to_thread(unpacked, text)
        return text

    async def delete(self, name: str) -> None:
        await self._writes.run(partial(_delete, name=name))


async def pack(text: str) -> bytes:
    """Compress a text, a long one in a thread."""
    if len(text) <= _INLINE_CHARACTERS:
        return zlib.compress(text.encode(), _LEVEL)
    return await asyncio.to_thread(zlib.compress, text.encode(), _LEVEL)


def unpacked(packed: bytes) -> str:
    """A text that `pack` compressed."""
    return zlib.decompress(packed).decode()


def _put(connection: Connection, name: str, packed: bytes, expires_at: float) -> None:
    put_all(connection, [(name, packed, expires_at)])


def put_all(connection: Connection, texts: list[tuple[str, bytes, float]]) -> None:
    """Keep compressed texts: of each the name, the bytes, and when it expires."""
    connection.executemany(
        "INSERT OR REPLACE INTO large_texts (name, text, packed, expires_at) VALUES (?, '', ?, ?)",
        texts,
    )


def _delete(connection: Connection, name: str) -> None:
    connection.execute("DELETE FROM large_texts WHERE name = ?", (name,))


def _get(connection: Connection, name: str, now: float) -> str | bytes | None:
    # A file of an earlier version has texts that are not packed.
    row = connection.execute(
        "SELECT ifnull(packed, text) FROM large_texts WHERE name = ? AND expires_at > ?",
        (name, now),
    ).fetchone()
    return None if row is None else row[0]
