"""Counts the bytes kept for each tenant and sender, in the transactions that change them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from sqlite3 import Connection
from typing import NamedTuple

from evenflow.stream_core.base.channel import MessageKind

ROW_BYTES = 1_024
"""A message without its texts: its row, those of its session and response, and their indexes."""
USAGE_BYTES = 768
"""The usage record of an answer."""

# Bytes kept of a message, with its answer, which is in the response's chunks, too.
_SIZE = f"""
{ROW_BYTES} + length(CAST(text AS BLOB)) + ifnull(length(messages.packed), 0)
+ length(CAST(terms AS BLOB))
+ ifnull(length(CAST(answer AS BLOB)), 0) + length(CAST(outcome AS BLOB))
+ ifnull((SELECT length(large_texts.packed) FROM large_texts WHERE name = text_name), 0)
+ ifnull((
    SELECT sum(length(CAST(entries AS BLOB))) FROM chunks JOIN responses ON number = response
    WHERE responses.response_id = messages.response_id
), 0)"""


class Holder(NamedTuple):
    """The sender that a row of the store is counted for.

    `sender`: digests of the address and of the session or user, with a colon between. Empty: not
    known.
    """

    tenant: str
    sender: str

    @classmethod
    def of(cls, channel: str, sender: str) -> Holder:
        """The sender of a message of this channel."""
        return cls(channel.partition(":")[0], sender)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its sums: of its tenant, of its address, and its own."""
        # No tenant's name has a colon.
        parts = [self.tenant, *self.sender.split(":")] if self.sender else [self.tenant]
        return tuple(accumulate(parts, "{}:{}".format))


def add_kept(connection: Connection, changes: Mapping[Holder, int]) -> None:
    """Add these bytes to the sums of each sender. Deleted bytes are less than 0."""
    sums: Counter[str] = Counter()
    for holder, change in changes.items():
        sums.update(dict.fromkeys(holder.names, change))
    connection.executemany(
        "INSERT INTO kept_bytes VALUES (?, ?) "
        "ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
        [(name, change) for name, change in sums.items() if change],
    )
    connection.executemany(
        "DELETE FROM kept_bytes WHERE holder = ? AND bytes <= 0",
        [(name,) for name, change in sums.items() if change < 0],
    )


def read_kept(connection: Connection, holder: Holder) -> list[int]:
    """The bytes kept for the tenant, and of these for the address, and of these for the sender."""
    return [_kept(connection, name) for name in holder.names]


def recount(connection: Connection, channel: str, message_id: str) -> None:
    """Count the bytes of a message again, because it has changed."""
    place = channel, message_id
    row = connection.execute(
        "SELECT sender, bytes FROM messages WHERE channel = ? AND message_id = ?", place
    ).fetchone()
    if row is None:
        return
    sender, before = row
    ((after,),) = connection.execute(
        f"UPDATE messages SET bytes = {_SIZE} WHERE channel = ? AND message_id = ? RETURNING bytes",
        place,
    ).fetchall()
    add_kept(connection, {Holder.of(channel, sender): after - before})


def delete_text(connection: Connection, channel: str, message_id: str) -> None:
    """Delete the text of an ended message that brought its conversation, since nothing reads it.

    Any message is counted again.
    """
    place = channel, message_id
    row = connection.execute(
        "SELECT kind, text_name FROM messages WHERE channel = ? AND message_id = ? AND ended", place
    ).fetchone()
    if row is not None and MessageKind.from_text(row[0]).brings_conversation:
        connection.execute("DELETE FROM large_texts WHERE name = ?", (row[1],))
        connection.execute(
            "UPDATE messages SET text = '' WHERE channel = ? AND message_id = ?", place
        )
    recount(connection, channel, message_id)


def _kept(connection: Connection, name: str) -> int:
    row = connection.execute("SELECT bytes FROM kept_bytes WHERE holder = ?", (name,)).fetchone()
    return 0 if row is None else row[0]
