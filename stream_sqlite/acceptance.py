"""Puts messages on record with few statements, however many they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import NamedTuple

import orjson

from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, Lease, ResponseHead
from evenflow.stream_core.stores.session_store import LedgerEntry, NotAccepted
from evenflow.stream_sqlite.kept_bytes import ROW_BYTES, Holder, add_kept, delete_text
from evenflow.stream_sqlite.large_texts import put_all
from evenflow.stream_sqlite.response_store import starts_text

ENTRY = (
    "message_id, previous_message_id, text, response_id, owner, answer, ended, replaces, terms, "
    "kind, text_name, outcome, parent_message_id"
)
"""The columns of a message that make its entry in the ledger."""
_RESPONSES = (
    "INSERT INTO responses (response_id, channel, message_id, owner, epoch, created_at, "
    "expires_at, starts)"
)
_SESSIONS = "INSERT OR REPLACE INTO sessions (channel, last_message_id, expires_at)"
_MESSAGES = f"INSERT INTO messages (channel, expires_at, sender, bytes, packed, {ENTRY})"
# Expired messages with the names of new ones. A join, since SQLite scans the table for pairs in a
# list.
_REPLACED = """
DELETE FROM messages WHERE rowid IN (
    SELECT message.rowid FROM (VALUES {rows}) AS named CROSS JOIN messages AS message
    ON message.channel = named.column1 AND message.message_id = named.column2
) RETURNING channel, sender, bytes
"""

# One row with one value: which of them are on record already, and which follow their session's last
# message. Ids come as values of their own, since SQLite's JSON cuts a text at its first zero.
_KNOWN_OR_NEXT = """
WITH asked (number, channel, message_id, previous_message_id, response_id, now) AS (VALUES {rows})
SELECT json_group_array(json_array(asked.number, message.response_id IS NOT NULL))
FROM asked
LEFT JOIN messages AS message ON message.channel = asked.channel
    AND message.message_id = asked.message_id AND message.expires_at > asked.now
LEFT JOIN sessions AS session ON session.channel = asked.channel AND session.expires_at > asked.now
LEFT JOIN responses AS response ON response.response_id = asked.response_id
WHERE message.response_id = asked.response_id
    OR message.response_id IS NULL AND response.response_id IS NULL
    AND NOT ifnull(session.ended, 0)
    AND session.last_message_id IS asked.previous_message_id
"""


class Accepting(NamedTuple):
    """A message that is to be put on record.

    `now`, `expires_at`: seconds since the epoch. `expires_at`: when the message is forgotten.
    `packed`: its text, compressed, if that is long. It is a large text of its own if the entry has
    a name for it.
    """

    channel: str
    entry: LedgerEntry
    now: float
    expires_at: float
    packed: bytes | None = None

    @property
    def head(self) -> ResponseHead:
        """The head of its response."""
        entry = self.entry
        return ResponseHead(
            entry.response_id,
            self.channel,
            entry.message_id,
            entry.owner,
            1,
            self.now,
            self.now + LIFETIME_SECONDS,
        )

    @property
    def holder(self) -> Holder:
        """Its sender."""
        return Holder.of(self.channel, self.entry.sender_digest)

    @property
    def size(self) -> int:
        """The bytes kept of it before it is answered."""
        texts = self.entry.text.encode(), self.entry.terms.encode(), self.packed or b""
        return ROW_BYTES + sum(map(len, texts))


def accept_all(connection: Connection, messages: Sequence[Accepting]) -> list[Lease | NotAccepted]:
    """Put messages on record, each with its response. Returns the outcome of each."""
    outcomes: dict[int, Lease | NotAccepted] = {}
    pending = dict(enumerate(messages))
    while pending:
        # A session's second one may follow the first.
        firsts: dict[str, int] = {}
        for number, message in pending.items():
            firsts.setdefault(message.channel, number)
        outcomes |= _accept(connection, {number: pending.pop(number) for number in firsts.values()})
    return [outcomes[number] for number in range(len(messages))]


def _accept(
    connection: Connection, messages: Mapping[int, Accepting]
) -> dict[int, Lease | NotAccepted]:
    """Put messages on record, at most one of each session."""
    known_numbers = _known_or_next(connection, messages)
    following = [messages[number] for number, is_known in known_numbers.items() if not is_known]
    if following:
        _write(connection, _RESPONSES, map(_response, following))
        _write(connection, _SESSIONS, map(_session, following))
        _count(connection, following)
        _write(connection, _MESSAGES, map(_message, following))
        _write_texts(connection, following)
    return {
        number: message.head.lease if number in known_numbers else _not_accepted(message)
        for number, message in messages.items()
    }


def _known_or_next(connection: Connection, messages: Mapping[int, Accepting]) -> dict[int, bool]:
    """Those that are on record (True) or may be put there (False). Others are left out."""
    rows = [
        (number, channel, entry.message_id, entry.previous_message_id, entry.response_id, now)
        for number, (channel, entry, now, *_) in messages.items()
    ]
    row = connection.execute(_KNOWN_OR_NEXT.format(rows=_marks(rows)), _flat(rows)).fetchone()
    return {number: bool(is_known) for number, is_known in orjson.loads(row[0])}


def _write(connection: Connection, insert: str, rows: Iterable[tuple[object, ...]]) -> None:
    rows = [*rows]
    connection.execute(f"{insert} VALUES {_marks(rows)}", _flat(rows))


def _count(connection: Connection, messages: Sequence[Accepting]) -> None:
    """Count the bytes of these messages, and delete expired ones with the same names."""
    names = [(message.channel, message.entry.message_id) for message in messages]
    replaced = connection.execute(_REPLACED.format(rows=_marks(names)), _flat(names)).fetchall()
    changes: Counter[Holder] = Counter()
    for message in messages:
        changes[message.holder] += message.size
    for channel, sender, size in replaced:
        changes[Holder.of(channel, sender)] -= size
    add_kept(connection, changes)


def _write_texts(connection: Connection, messages: Sequence[Accepting]) -> None:
    """Keep long texts, and delete those of earlier messages that these texts repeat."""
    packed = [
        (entry.text_name, text, expires_at)
        for _, entry, _, expires_at, text in messages
        if entry.text_name and text
    ]
    if packed:
        put_all(connection, packed)
    for channel, entry, *_ in messages:
        before = entry.previous_message_id
        if before and entry.kind and MessageKind.from_text(entry.kind).brings_conversation:
            delete_text(connection, channel, before)


def _response(message: Accepting) -> tuple[object, ...]:
    head = message.head
    return (
        head.response_id,
        head.channel,
        head.message_id,
        head.owner,
        head.epoch,
        head.created_at,
        head.expires_at,
        starts_text(head),
    )


def _session(message: Accepting) -> tuple[object, ...]:
    return message.channel, message.entry.message_id, message.expires_at


def _message(message: Accepting) -> tuple[object, ...]:
    entry = message.entry
    return (
        message.channel,
        message.expires_at,
        entry.sender_digest,
        message.size,
        None if entry.text_name else message.packed,
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
        entry.outcome,
        entry.parent_message_id,
    )


def _not_accepted(message: Accepting) -> NotAccepted:
    return NotAccepted(
        f"message {message.entry.message_id} is known already, or doesn't follow the session's "
        "last one"
    )


def _marks(rows: Sequence[tuple[object, ...]]) -> str:
    row = f"({', '.join('?' * len(rows[0]))})"
    return ", ".join([row] * len(rows))


def _flat(rows: Iterable[tuple[object, ...]]) -> tuple[object, ...]:
    return tuple(value for row in rows for value in row)
