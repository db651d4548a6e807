"""The ledger in SQLite."""

from __future__ import annotations

from functools import partial
from sqlite3 import Connection

from stream_core.policy.channel import Channel
from stream_core.ports.response_store import LIFETIME_SECONDS, Lease, ResponseHead
from stream_core.ports.session_store import (
    LedgerEntry,
    NotAccepted,
    StoredConversation,
    in_causal_order,
)
from stream_sqlite.expiry import Expiry
from stream_sqlite.response_store import create
from stream_sqlite.transactions import Transactions

_ENTRY = (
    "message_id, previous_message_id, text, response_id, owner, answer, ended, replaces, terms, "
    "kind, text_name"
)


class SQLiteSessionStore:
    """The ledger in SQLite (`SessionStore`). Accepting a message deletes what has expired."""

    def __init__(self, writes: Transactions, reads: Transactions) -> None:
        self._writes = writes
        self._reads = reads
        self._expiry = Expiry()

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        return await self._reads.run(partial(_load, channel=str(channel), now=now))

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:

        def accept(connection: Connection) -> Lease:
            self._expiry.delete_some(connection, now)
            return _accept(connection, str(channel), entry, now)

        return await self._writes.run(accept, durable=True)

    async def answered(self, channel: Channel, message_id: str, answer: str | None) -> None:
        await self._writes.run(
            partial(_answered, channel=str(channel), message_id=message_id, answer=answer),
            durable=True,
        )


def _last_message_id(connection: Connection, channel: str, now: float) -> str | None:
    row = connection.execute(
        "SELECT last_message_id FROM sessions WHERE channel = ? AND expires_at > ?", (channel, now)
    ).fetchone()
    return None if row is None else row[0]


def _load(connection: Connection, channel: str, now: float) -> StoredConversation:
    last = _last_message_id(connection, channel, now)
    rows = connection.execute(
        f"SELECT {_ENTRY} FROM messages WHERE channel = ? AND expires_at > ?", (channel, now)
    )
    return StoredConversation(last, in_causal_order(last, [_read_entry(*row) for row in rows]))


def _accept(connection: Connection, channel: str, entry: LedgerEntry, now: float) -> Lease:
    expires_at = now + LIFETIME_SECONDS
    head = ResponseHead(
        entry.response_id, channel, entry.message_id, entry.owner, 1, now, expires_at
    )
    known = connection.execute(
        "SELECT response_id FROM messages WHERE channel = ? AND message_id = ? AND expires_at > ?",
        (channel, entry.message_id, now),
    ).fetchone()
    if known is not None and known[0] == entry.response_id:
        return head.lease
    follows = _last_message_id(connection, channel, now) == entry.previous_message_id
    if known is not None or not follows or not create(connection, head):
        raise NotAccepted(
            f"message {entry.message_id} is known already, or doesn't follow the session's last one"
        )
    connection.execute(
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (channel, entry.message_id, expires_at)
    )
    connection.execute(
        f"INSERT OR REPLACE INTO messages (channel, expires_at, {_ENTRY}) VALUES (?, ?, ?, ?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?)",
        (
            channel,
            expires_at,
            entry.message_id,
            entry.previous_message_id,
            entry.text,
            entry.response_id,
            entry.owner,
            entry.answer,
            entry.ended,
            entry.replaces,
            entry.terms,
            entry.kind,
            entry.text_name,
        ),
    )
    return head.lease


def _answered(connection: Connection, channel: str, message_id: str, answer: str | None) -> None:
    connection.execute(
        "UPDATE messages SET ended = 1, answer = ifnull(?, answer) WHERE channel = ? AND "
        "message_id = ?",
        (answer, channel, message_id),
    )


def _read_entry(
    message_id: str,
    previous_message_id: str | None,
    text: str,
    response_id: str,
    owner: str,
    answer: str | None,
    ended: int,
    *rest: str | None,
) -> LedgerEntry:
    replaces, terms, kind, text_name = rest
    return LedgerEntry(
        message_id,
        previous_message_id,
        text,
        response_id,
        owner,
        answer,
        bool(ended),
        replaces,
        terms or "",
        kind or "",
        text_name,
    )
