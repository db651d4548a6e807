"""The file after a power cut in the middle of a write: what reached the disk is all there, and nothing is torn.

A cut leaves the database and a beginning of its log of writes (`-wal`), the rest missing or garbled.
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

from stream_core.response_log import LogEntry
from stream_core.response_store import Lease
from stream_sqlite import transactions
from stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, completed, new_channel, new_message

CUTS = 24


@dataclass
class Written:
    """A file that was written step by step, and what it held after each."""

    path: Path
    opened: SQLiteStores
    sizes: list[int] = field(default_factory=list)
    """Of the log of writes, after each step."""
    states: list[dict[str, list[LogEntry]]] = field(default_factory=list)
    """The entries of all responses, after each step."""

    @property
    def stores(self) -> Stores:
        return Stores(self.opened.responses, self.opened.sessions)

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    async def step(self, done: Awaitable[object], leases: list[Lease]) -> None:
        await done
        self.sizes.append(self.log.stat().st_size)
        self.states.append({lease.response_id: await self.stores.read(lease.response_id) for lease in leases})

    def state_at(self, size: int) -> dict[str, list[LogEntry]]:
        """What must be there when so many bytes of the log are."""
        whole = sum(reached <= size for reached in self.sizes)
        return self.states[whole - 1] if whole else {}


async def write(path: Path) -> Written:
    """Three answers, each accepted and then written chunk by chunk; the first one ends."""
    written = Written(path, SQLiteStores(path, lambda: NOW))
    stores, leases = written.stores, list[Lease]()
    for _ in range(3):
        message = new_message(None)
        leases.append(Lease(message.response_id, message.owner, 1))
        await written.step(stores.sessions.accept(new_channel(), message, NOW), leases)
    for index in range(12):
        for lease in leases:
            text = f"{lease.response_id} {index} " * (60 if index % 5 == 4 else 1)
            await written.step(stores.write(lease, index, [text]), leases)
    await written.step(stores.responses.finish(leases[0], completed(12), NOW + 300), leases)
    return written


def copied(written: Written, folder: Path, log: bytes) -> Path:
    """The file as it is after a cut that left so much of the log of writes."""
    folder.mkdir()
    path = folder / "evenflow.db"
    shutil.copy(written.path, path)
    path.with_name("evenflow.db-wal").write_bytes(log)
    return path


async def held(path: Path, response_ids: list[str]) -> dict[str, list[LogEntry]]:
    """What a handler finds that starts after the cut."""
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        stores = Stores(opened.responses, opened.sessions)
        found = {
            response_id: await stores.read(response_id)
            for response_id in response_ids
            if await opened.responses.head(response_id, NOW) is not None
        }
        await stores.begin("b")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return found


@pytest.mark.parametrize("garbled", [False, True], ids=["missing", "garbled"])
async def test_what_reached_the_disk_is_there_and_nothing_is_torn(tmp_path: Path, *, garbled: bool) -> None:
    random = Random(7)
    written = await write(tmp_path / "evenflow.db")
    log = written.log.read_bytes()
    assert len(set(written.sizes)) == len(written.sizes), "each step wrote to the log"
    response_ids = list(written.states[-1])
    places = [*(random.randrange(len(log)) for _ in range(CUTS)), *random.sample(written.sizes, 4), len(log)]
    for number, place in enumerate(places):
        tail = random.randbytes(len(log) - place) if garbled else b""
        path = copied(written, tmp_path / str(number), log[:place] + tail)
        assert await held(path, response_ids) == written.state_at(place), f"cut at {place}"
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
        return [statement for statement in said if "synchronous" in statement][-1].rpartition("=")[2]

    with closing(SQLiteStores(tmp_path / "evenflow.db", lambda: NOW)) as opened:
        stores = Stores(opened.responses, opened.sessions)
        message = new_message(None, owner="a")
        lease = Lease(message.response_id, "a", 1)
        assert await synchronous(opened.sessions.accept(new_channel(), message, NOW)) == "FULL"
        assert await synchronous(stores.write(lease, 0, ["a"])) == "NORMAL"
        assert await synchronous(opened.responses.take_over(lease.response_id, "b", NOW)) == "FULL"
        assert await synchronous(opened.responses.renew("b", NOW + 10)) == "NORMAL"
        second = Lease(lease.response_id, "b", 2)
        assert await synchronous(opened.responses.finish(second, completed(1), NOW + 300)) == "FULL"
