"""The response store in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from sqlite3 import Connection
from typing import Any

import orjson

from evenflow.stream_core.stores.response_store import (
    TEXT_FORM,
    Chunk,
    Ending,
    Lease,
    LeaseLost,
    NodeLease,
    ResponseHead,
    StoredEntries,
    Unwritable,
    gapless,
)
from evenflow.stream_core.stores.stored_json import (
    ending_text,
    plain_entries,
    read_ending,
    read_entries,
)
from evenflow.stream_sqlite import leases
from evenflow.stream_sqlite.process_lock import ProcessLock
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes

_HEAD = (
    "response_id, channel, message_id, owner, epoch, created_at, expires_at, polls, hand_overs, "
    "starts, ending, form"
)

_WRITE_CHUNKS = """
INSERT OR IGNORE INTO chunks
SELECT number, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value -> 5
FROM json_each(?) JOIN responses ON response_id = value ->> 0
"""


class SQLiteResponseStore:
    """The response store in SQLite (`ResponseStore`).

    Accepting, taking over and ending survive a power cut. Chunks survive the end of the process,
    but a power cut may take the last ones.

    Args:
        process: the lock of this process.
    """

    chunks_per_write = 1_000
    chunks_per_second = 1_000

    def __init__(self, writes: Writes, reads: Reads, process: ProcessLock) -> None:
        self._writes = writes
        self._reads = reads
        self._process = process

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        if not chunks:
            return ()
        try:
            rows = orjson.dumps([_row(chunk) for chunk in chunks]).decode()
        except TypeError as error:
            if len(chunks) == 1:
                raise Unwritable(chunks, ()) from error
            await self._append_each(chunks)
            return ()
        forms = [
            (chunk.form, chunk.response_id, chunk.epoch)
            for chunk in chunks
            if chunk.form > TEXT_FORM
        ]
        await self._writes.run(partial(_append, rows=rows, forms=forms))
        return ()

    async def _append_each(self, chunks: Sequence[Chunk]) -> None:
        """Write chunks one by one, so that an invalid text rejects only its own chunk."""
        refused: list[Chunk] = []
        for chunk in chunks:
            try:
                await self.append([chunk])
            except Unwritable:
                refused.append(chunk)
        if refused:
            raise Unwritable(refused, ())

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        await self._writes.run(
            partial(_finish, lease=lease, ending=ending, expires_at=expires_at), durable=True
        )

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        await self._writes.run(
            partial(
                leases.renew, owner=owner, until=until, address=address, process=self._process.name
            )
        )

    async def release(self, owner: str) -> None:
        await self._writes.run(partial(leases.release, owner=owner))

    async def declare_lost(self, lease: NodeLease) -> bool:
        return await self._writes.run(
            partial(leases.declare_lost, owner=lease.owner, until=lease.until, now=lease.until),
            durable=True,
        )

    async def lease(self, owner: str) -> NodeLease | None:
        return await self._reads.run(partial(leases.lease, owner=owner))

    async def leases(self) -> Sequence[NodeLease]:
        ended_processes = await self._reads.run(
            partial(leases.ended_processes, is_gone=self._process.is_gone)
        )
        if ended_processes:
            await self._writes.run(partial(leases.lose_all, processes=ended_processes))
        return await self._reads.run(leases.leases)

    async def unfinished(self, owner: str) -> Sequence[str]:
        return await self._reads.run(partial(_unfinished, owner=owner))

    async def forget(self, owner: str) -> None:
        await self._writes.run(partial(leases.forget, owner=owner))

    async def hand_over(self, lease: Lease) -> None:
        await self._writes.run(partial(_hand_over, lease=lease))

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        return await self._writes.run(
            partial(_take_over, response_id=response_id, owner=owner, now=now), durable=True
        )

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        return await self._reads.run(partial(_head, response_id=response_id, now=now))

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        return await self._writes.run(partial(_note_read, response_id=response_id, now=now))

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        return await self._reads.run(
            partial(_entries, response_id=response_id, from_index=from_index, now=now)
        )

    async def delete(self, response_ids: Sequence[str]) -> None:
        await self._writes.run(partial(_delete, response_ids=response_ids))


def _append(connection: Connection, rows: str, forms: Sequence[tuple[int, str, int]]) -> None:
    connection.execute(_WRITE_CHUNKS, (rows,))
    connection.executemany(
        "UPDATE responses SET form = ? WHERE response_id = ? AND epoch = ? AND form < ?",
        [(form, response_id, epoch, form) for form, response_id, epoch in forms],
    )


def _row(chunk: Chunk) -> tuple[object, ...]:
    entries = plain_entries(chunk.entries)
    return (
        chunk.response_id,
        chunk.last_index,
        chunk.epoch,
        chunk.first_index,
        chunk.began_at,
        entries,
    )


def _finish(connection: Connection, lease: Lease, ending: Ending, expires_at: float) -> None:
    done = connection.execute(
        "UPDATE responses SET ending = ?, expires_at = ?"
        " WHERE response_id = ? AND owner = ? AND epoch = ? AND ending IS NULL",
        (ending_text(ending), expires_at, lease.response_id, lease.owner, lease.epoch),
    )
    if not done.rowcount:
        head = _any_head(connection, lease.response_id)
        if head is None or head.lease != lease:
            raise LeaseLost(f"response {lease.response_id} has another owner; nothing was written")


def _unfinished(connection: Connection, owner: str) -> list[str]:
    rows = connection.execute(
        "SELECT response_id FROM responses WHERE owner = ? AND ending IS NULL", (owner,)
    )
    return [response_id for (response_id,) in rows]


def _hand_over(connection: Connection, lease: Lease) -> None:
    done = connection.execute(
        "UPDATE responses SET hand_overs = hand_overs + (handed_over_epoch IS NOT epoch), "
        "handed_over_epoch = epoch WHERE response_id = ? AND owner = ? AND epoch = ?",
        (lease.response_id, lease.owner, lease.epoch),
    )
    if not done.rowcount:
        raise LeaseLost(f"response {lease.response_id} has another owner; nothing was changed")


def _take_over(
    connection: Connection, response_id: str, owner: str, now: float
) -> StoredEntries | None:
    head = _head(connection, response_id, now)
    if head is None or head.ending is not None or not head.is_readable:
        return None
    if head.owner != owner:
        if not leases.declare_lost(connection, head.owner, None, now):
            return None
        epoch, start = head.epoch + 1, _read(connection, head, 0).next_index
        head = replace(head, owner=owner, epoch=epoch, starts={**head.starts, epoch: start})
        connection.execute(
            "UPDATE responses SET owner = ?, epoch = ?, starts = ? WHERE response_id = ?",
            (owner, epoch, starts_text(head), response_id),
        )
    return _read(connection, head, 0)


def _note_read(connection: Connection, response_id: str, now: float) -> ResponseHead | None:
    connection.execute(
        "UPDATE responses SET polls = polls + 1 WHERE response_id = ? AND expires_at > ?",
        (response_id, now),
    )
    return _head(connection, response_id, now)


def _head(connection: Connection, response_id: str, now: float) -> ResponseHead | None:
    head = _any_head(connection, response_id)
    return head if head is not None and head.expires_at > now else None


def _any_head(connection: Connection, response_id: str) -> ResponseHead | None:
    """The head, expired or not."""
    row = connection.execute(
        f"SELECT {_HEAD} FROM responses WHERE response_id = ?", (response_id,)
    ).fetchone()
    return None if row is None else _read_head(*row)


def _entries(
    connection: Connection, response_id: str, from_index: int, now: float
) -> StoredEntries:
    head = _head(connection, response_id, now)
    return (
        StoredEntries(from_index, (), None) if head is None else _read(connection, head, from_index)
    )


def _delete(connection: Connection, response_ids: Sequence[str]) -> None:
    connection.executemany(
        "DELETE FROM responses WHERE response_id = ?", [(each,) for each in response_ids]
    )


def _read(connection: Connection, head: ResponseHead, from_index: int) -> StoredEntries:
    """The run from `from_index` on. Chunks and head are read in one transaction."""
    rows = connection.execute(
        "SELECT chunks.epoch, first_index, entries, began_at FROM chunks JOIN responses ON "
        "number = response WHERE response_id = ? AND last_index >= ?",
        (head.response_id, from_index - 1),
    )
    chunks = (
        Chunk(head.response_id, epoch, first_index, read_entries(orjson.loads(entries)), began_at)
        for epoch, first_index, entries, began_at in rows
    )
    return gapless(head, chunks, from_index)


def _read_head(*columns: Any) -> ResponseHead:
    (
        response_id,
        channel,
        message_id,
        owner,
        epoch,
        created_at,
        expires_at,
        polls,
        hand_overs,
        starts,
        ending,
        form,
    ) = columns
    return ResponseHead(
        response_id=response_id,
        channel=channel,
        message_id=message_id,
        owner=owner,
        epoch=epoch,
        created_at=created_at,
        expires_at=expires_at,
        starts={int(of): start for of, start in orjson.loads(starts).items()},
        polls=polls,
        hand_overs=hand_overs,
        ending=None if ending is None else read_ending(ending),
        form=form,
    )


def starts_text(head: ResponseHead) -> str:
    """Where each epoch of a response starts, as it is kept."""
    return orjson.dumps({str(epoch): start for epoch, start in head.starts.items()}).decode()
