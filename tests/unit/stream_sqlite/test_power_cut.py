"""The file after a power cut in the middle of a write: what reached the disk is there, nothing is
torn.

A cut leaves the database and a beginning of its log of writes (`-wal`), the rest missing or
garbled.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.response_store import Lease
from evenflow.stream_sqlite import transactions
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, completed, new_channel, new_message

CUTS = 24


State = list[tuple[object, ...]]
"""Of each message: its session, whether it has a response, how that ended, and its entries."""


async def state(stores: Stores, messages: list[tuple[Channel, str]]) -> State:
    """What is known of these messages, by channel and response."""
    known: State = []
    for channel, response_id in messages:
        conversation = await stores.sessions.load(channel, NOW)
        head = await stores.responses.head(response_id, NOW)
        ending = None if head is None else head.ending
        known.append((conversation, head is not None, ending, await stores.read(response_id)))
    return known


@dataclass
class Written:
    """A file that was written step by step, and what it held after each."""

    path: Path
    opened: SQLiteStores
    messages: list[tuple[Channel, str]]
    sizes: list[int] = field(default_factory=lambda: [0])
    """Of the log of writes, at the beginning and after each step."""
    states: list[State] = field(default_factory=list)
    """What was known then."""

    @property
    def stores(self) -> Stores:
        return Stores(self.opened.responses, self.opened.sessions)

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    async def step(self, done: Awaitable[object]) -> None:
        await done
        self.sizes.append(self.log.stat().st_size)
        self.states.append(await state(self.stores, self.messages))

    def state_at(self, size: int) -> State:
        """What must be there when so many bytes of the log are."""
        return self.states[sum(reached <= size for reached in self.sizes) - 1]


async def write(path: Path) -> Written:
    """Three answers, each accepted and then written chunk by chunk; the first one ends."""
    asked = [(new_channel(), new_message(None)) for _ in range(3)]
    messages = [(channel, message.response_id) for channel, message in asked]
    written = Written(path, SQLiteStores(path, lambda: NOW), messages)
    stores = written.stores
    written.states.append(await state(stores, messages))
    for channel, message in asked:
        await written.step(stores.sessions.accept(channel, message, NOW))
    leases = [Lease(message.response_id, message.owner, 1) for _, message in asked]
    for index in range(12):
        for lease in leases:
            text = f"{lease.response_id} {index} " * (60 if index % 5 == 4 else 1)
            await written.step(stores.write(lease, index, [text]))
    await written.step(stores.responses.finish(leases[0], completed(12), NOW + 300))
    return written


def copied(written: Written, folder: Path, log: bytes) -> Path:
    """The file as it is after a cut that left so much of the log of writes."""
    folder.mkdir()
    path = folder / "evenflow.db"
    shutil.copy(written.path, path)
    path.with_name("evenflow.db-wal").write_bytes(log)
    return path


async def held(path: Path, messages: list[tuple[Channel, str]]) -> State:
    """What a handler finds that starts after the cut, and can go on with."""
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        stores = Stores(opened.responses, opened.sessions)
        found = await state(stores, messages)
        await stores.begin("b")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return found


@pytest.mark.parametrize("garbled", [False, True], ids=["missing", "garbled"])
async def test_what_reached_the_disk_is_there_and_nothing_is_torn(
    tmp_path: Path, *, garbled: bool
) -> None:
    random = Random(7)
    written = await write(tmp_path / "evenflow.db")
    log = written.log.read_bytes()
    assert len(set(written.sizes)) == len(written.sizes), "each step wrote to the log"
    places = [
        *(random.randrange(len(log)) for _ in range(CUTS)),
        *random.sample(written.sizes, 4),
        len(log),
    ]
    for number, place in enumerate(places):
        tail = random.randbytes(len(log) - place) if garbled else b""
        path = copied(written, tmp_path / str(number), log[:place] + tail)
        assert await held(path, written.messages) == written.state_at(place), f"cut at {place}"
    written.opened.close()


async def test_what_was_acknowledged_as_durable_waited_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.set_trace_callback(said.append)
        return connection

    SQLiteStores(tmp_path / "evenflow.db", lambda: NOW).close()
    monkeypatch.setattr(transactions, "connect", connect)

    async def synchronous(done: Awaitable[object]) -> str:
        await done
        assert said[-1] == "COMMIT"
        return [statement for statement in said if "synchronous" in statement][-1].rpartition("=")[
            2
        ]

    with closing(SQLiteStores(tmp_path / "evenflow.db", lambda: NOW)) as opened:
        stores = Stores(opened.responses, opened.sessions)
        channel, message = new_channel(), new_message(None, owner="a")
        lease = Lease(message.response_id, "a", 1)
        assert await synchronous(opened.sessions.accept(channel, message, NOW)) == "FULL"
        assert await synchronous(stores.write(lease, 0, ["a"])) == "NORMAL"
        assert await synchronous(opened.responses.take_over(lease.response_id, "b", NOW)) == "FULL"
        assert await synchronous(opened.responses.renew("b", NOW + 10)) == "NORMAL"
        second = Lease(lease.response_id, "b", 2)
        assert await synchronous(opened.responses.finish(second, completed(1), NOW + 300)) == "FULL"
        assert await synchronous(opened.responses.renew("b", NOW + 20)) == "NORMAL"
        assert (
            await synchronous(opened.sessions.record_answer(channel, message.message_id, "a"))
            == "FULL"
        )
