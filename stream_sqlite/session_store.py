"""The session store in SQLite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from sqlite3 import Connection
from typing import Any

from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.stores.conversation_tree import MessageLink, in_causal_order
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, Lease
from evenflow.stream_core.stores.session_store import (
    LedgerEntry,
    StoredConversation,
    kept_seconds,
)
from evenflow.stream_sqlite.acceptance import ENTRY, Accepting, accept_all
from evenflow.stream_sqlite.file import BRANCHES
from evenflow.stream_sqlite.kept_bytes import Holder, add_kept, delete_text, recount
from evenflow.stream_sqlite.large_texts import PACKED_FROM_BYTES, pack, unpacked
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.room import Room
from evenflow.stream_sqlite.writes import Writes

_READ = f"{ENTRY}, packed"


class SQLiteSessionStore:
    """The session store in SQLite. Long texts are compressed, those of requests apart.

    Args:
        room: the room for messages in the file.
        lifetime: how long messages of chats are kept, in seconds.
    """

    def __init__(self, writes: Writes, reads: Reads, room: Room, lifetime: float) -> None:
        self._writes = writes
        self._reads = reads
        self._room = room
        self._lifetime = lifetime

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        return await self._reads.run(partial(_load, channel=str(channel), now=now))

    async def head(self, channel: Channel, now: float) -> StoredConversation:
        return await self._reads.run(partial(_head, channel=str(channel), now=now))

    async def message(self, channel: Channel, message_id: str, now: float) -> LedgerEntry | None:
        return await self._reads.run(
            partial(_message, channel=str(channel), message_id=message_id, now=now)
        )

    async def links(
        self, channel: Channel, last_message_id: str, now: float
    ) -> Sequence[MessageLink]:
        return await self._reads.run(
            partial(_links, channel=str(channel), last_message_id=last_message_id, now=now)
        )

    async def find_ended(self, channels: Collection[Channel], now: float) -> frozenset[Channel]:
        ended_channels = await self._reads.run(
            partial(_find_ended, channels=[str(channel) for channel in channels], now=now)
        )
        return frozenset(channel for channel in channels if str(channel) in ended_channels)

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        packed = None
        if len(entry.text) >= PACKED_FROM_BYTES:
            packed = await pack(entry.text)
            # A request that brings its conversation is read rarely, and never as history.
            is_apart = MessageKind.from_text(entry.kind).brings_conversation
            name = entry.response_id if is_apart else None
            entry = replace(entry, text="", text_name=name)
        expires_at = now + kept_seconds(entry, self._lifetime)
        message = Accepting(str(channel), entry, now, expires_at, packed)
        async with self._room.reserve(message.holder, message.size):
            return await self._writes.run_together(accept_all, message, durable=True, urgent=True)

    async def record_answer(
        self, channel: Channel, message_id: str, answer: str | None, outcome: str = ""
    ) -> None:
        await self._writes.run(
            partial(
                _answered,
                channel=str(channel),
                message_id=message_id,
                answer=answer,
                outcome=outcome,
            ),
            durable=True,
        )

    async def end(self, channel: Channel, now: float) -> Sequence[LedgerEntry]:
        return await self._writes.run(partial(_end, channel=str(channel), now=now), durable=True)


def _session(connection: Connection, channel: str, now: float) -> tuple[str | None, bool]:
    """The session's last message, and whether it was ended."""
    row = connection.execute(
        "SELECT last_message_id, ended FROM sessions WHERE channel = ? AND expires_at > ?",
        (channel, now),
    ).fetchone()
    if row is None:
        return None, False
    last, is_ended = row
    return None if is_ended else last, bool(is_ended)


def _head(connection: Connection, channel: str, now: float) -> StoredConversation:
    last, is_ended = _session(connection, channel, now)
    rows = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE channel = ? AND expires_at > ? "
        f"AND {BRANCHES})",
        (channel, now),
    )
    return StoredConversation(last, (), is_ended, bool(rows.fetchone()[0]))


def _load(connection: Connection, channel: str, now: float) -> StoredConversation:
    last, is_ended = _session(connection, channel, now)
    rows = connection.execute(
        f"SELECT {_READ} FROM messages WHERE channel = ? AND expires_at > ?", (channel, now)
    )
    entries = in_causal_order(last, [_read_entry(*row) for row in rows])
    return StoredConversation(last, entries, is_ended)


def _message(
    connection: Connection, channel: str, message_id: str, now: float
) -> LedgerEntry | None:
    row = connection.execute(
        f"SELECT {_READ} FROM messages WHERE channel = ? AND message_id = ? AND expires_at > ?",
        (channel, message_id, now),
    ).fetchone()
    return None if row is None else _read_entry(*row)


def _links(
    connection: Connection, channel: str, last_message_id: str, now: float
) -> Sequence[MessageLink]:
    rows = connection.execute(
        "SELECT message_id, previous_message_id, replaces, parent_message_id FROM messages "
        "WHERE channel = ? AND expires_at > ?",
        (channel, now),
    )
    return in_causal_order(last_message_id, [MessageLink(*row) for row in rows])


def _find_ended(connection: Connection, channels: Sequence[str], now: float) -> set[str]:
    marks = ", ".join("?" * len(channels))
    rows = connection.execute(
        f"SELECT channel FROM sessions WHERE channel IN ({marks}) AND ended AND expires_at > ?",
        (*channels, now),
    )
    return {channel for (channel,) in rows}


def _answered(
    connection: Connection, channel: str, message_id: str, answer: str | None, outcome: str
) -> None:
    rows = connection.execute(
        "UPDATE messages SET ended = 1, answer = ifnull(?, answer), outcome = ? WHERE channel = ? "
        "AND message_id = ? RETURNING kind",
        (answer, outcome, channel, message_id),
    ).fetchall()
    for (kind,) in rows:
        is_recalled = MessageKind.from_text(kind).recalled
        # A later message repeats its text.
        is_needed = is_recalled and _is_last(connection, channel, message_id)
        change = recount if is_needed else delete_text
        change(connection, channel, message_id)


def _is_last(connection: Connection, channel: str, message_id: str) -> bool:
    rows = connection.execute(
        "SELECT 1 FROM sessions WHERE channel = ? AND last_message_id = ?", (channel, message_id)
    )
    return rows.fetchone() is not None


def _end(connection: Connection, channel: str, now: float) -> Sequence[LedgerEntry]:
    connection.execute(
        "INSERT OR REPLACE INTO sessions (channel, last_message_id, ended, expires_at) "
        "VALUES (?, '', 1, ?)",
        (channel, now + LIFETIME_SECONDS),
    )
    rows = connection.execute(
        f"DELETE FROM messages WHERE channel = ? RETURNING sender, bytes, {_READ}", (channel,)
    ).fetchall()
    changes: Counter[Holder] = Counter()
    for sender, size, *_ in rows:
        changes[Holder.of(channel, sender)] -= size
    add_kept(connection, changes)
    return [_read_entry(*row[2:]) for row in rows]


def _read_entry(
    message_id: str,
    previous_message_id: str | None,
    text: str,
    response_id: str,
    owner: str,
    answer: str | None,
    is_ended: int,
    *rest: Any,
) -> LedgerEntry:
    replaces, terms, kind, text_name, outcome, parent_message_id, packed = rest
    return LedgerEntry(
        message_id,
        previous_message_id,
        text if packed is None else unpacked(packed),
        response_id,
        owner,
        answer,
        bool(is_ended),
        replaces,
        terms or "",
        kind or "",
        text_name,
        outcome or "",
        parent_message_id,
    )
