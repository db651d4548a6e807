"""The file: who may read it, which is refused at the start, and what happens when it fails
later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event

import pytest

from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLettersUnavailable
from evenflow.stream_core.stores.response_store import (
    LIFETIME_SECONDS,
    LeaseLost,
    StoreUnavailable,
    Unwritable,
)
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import UsageRecord
from evenflow.stream_sqlite import file
from evenflow.stream_sqlite.file import UPGRADES, FileUnusable, connect, prepare
from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES
from evenflow.stream_sqlite.process_lock import ProcessLock
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, chunk, completed, new_channel, new_message

LETTER = DeadLetter("r1", "t:a:s", "m1", 3, "attempts_exhausted", NOW)
USED = UsageRecord(
    tenant="t", response_id="r", agent="a", user="", key="", model="m", state="completed",
    ended_at=NOW,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".evenflow" / "evenflow.db"


@pytest.fixture
def opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStores]:
    """Stores that wait for another process only for a moment."""
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.02)
    with closing(SQLiteStores(path, lambda: NOW)) as stores:
        yield stores


@pytest.fixture
def stores(opened: SQLiteStores) -> Stores:
    return Stores(opened.responses, opened.sessions)


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608


# -- at the start ----------------------------------------------------------------------------------


async def test_only_the_owner_reads_what_people_said(path: Path, stores: Stores) -> None:
    await stores.begin("a")
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    assert {"evenflow.db", "evenflow.db-wal", "evenflow.db-shm"} < modes.keys()
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_whoever_opens_the_file_signs_with_the_same_key(
    path: Path, opened: SQLiteStores, tmp_path: Path
) -> None:
    with (
        closing(SQLiteStores(path, lambda: NOW)) as same,
        closing(SQLiteStores(tmp_path / "b.db", lambda: NOW)) as other,
    ):
        assert same.signing_key == opened.signing_key
        assert other.signing_key != opened.signing_key
        assert len(opened.signing_key) >= 32


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_file_of_another_version_is_refused_and_left_as_it_is(path: Path) -> None:
    SQLiteStores(path, lambda: NOW).close()
    change(path, "PRAGMA user_version=99")
    before = path.read_bytes()
    with pytest.raises(FileUnusable, match=r"its tables have version 99.* move the file away"):
        SQLiteStores(path, lambda: NOW)
    assert path.read_bytes() == before


LATER_TABLES = re.findall(r"CREATE TABLE (\w+)", "\n".join(UPGRADES[2] + UPGRADES[3]))
LAST_UPGRADE = "\n".join(UPGRADES[5])
LAST_TABLES = re.findall(r"CREATE TABLE (\w+)", LAST_UPGRADE)


def make_file_of_version_5(path: Path) -> None:
    """A file as the program before this one has left it."""
    SQLiteStores(path, lambda: NOW).close()
    for index in re.findall(r"CREATE INDEX (\w+)", LAST_UPGRADE):
        change(path, f"DROP INDEX {index}")
    for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", LAST_UPGRADE):
        change(path, f"ALTER TABLE {table} DROP COLUMN {column}")
    for table in LAST_TABLES:
        change(path, f"DROP TABLE {table}")
    change(path, "PRAGMA user_version=5")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")


def make_file_of_version_1(path: Path) -> None:
    make_file_of_version_5(path)
    change(path, "ALTER TABLE responses DROP COLUMN form")
    change(path, "ALTER TABLE sessions DROP COLUMN ended")
    change(path, "ALTER TABLE messages DROP COLUMN outcome")
    change(path, "DROP INDEX branches")
    change(path, "ALTER TABLE messages DROP COLUMN parent_message_id")
    for table in LATER_TABLES:
        change(path, f"DROP TABLE {table}")
    change(path, "PRAGMA user_version=1")


async def test_a_file_of_the_version_before_is_upgraded_with_what_is_in_it(path: Path) -> None:
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        before = Stores(opened.responses, opened.sessions)
        lease = await before.begin("a")
        await before.write(lease, 0, ["a"])
        key = opened.signing_key
    make_file_of_version_1(path)
    for _ in range(2):
        with closing(SQLiteStores(path, lambda: NOW)) as opened:
            stores = Stores(opened.responses, opened.sessions)
            assert opened.signing_key == key
            assert (await stores.read(lease.response_id))[:1] == ["a"]
            await stores.write(lease, 1, [Part(PartKind.REASONING, "b")])
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        entries = await Stores(opened.responses, opened.sessions).read(lease.response_id)
    assert entries == ["a", Part(PartKind.REASONING, "b")]


async def test_a_file_of_the_version_before_keeps_its_texts_and_can_shrink(path: Path) -> None:
    make_file_of_version_5(path)
    text = "x" * 300_000
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO large_texts VALUES ('old', ?, ?)", (text, NOW + 60))
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        assert await opened.large_texts.get("old") == text
        await Stores(opened.responses, opened.sessions).begin("a")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_a_large_file_of_the_version_before_is_used_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_file_of_version_5(path)
    monkeypatch.setattr(file, "_REWRITTEN_BYTES", 1)
    with caplog.at_level(logging.INFO), closing(SQLiteStores(path, lambda: NOW)):
        assert "PRAGMA auto_vacuum=2; VACUUM" in caplog.text
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)


async def test_totals_are_those_of_the_records_that_an_earlier_program_wrote(path: Path) -> None:
    used = [
        UsageRecord(
            tenant=tenant, response_id=f"r{number}", agent="a", user=user, key="k", model=model,
            state="completed", ended_at=NOW + 86_400 * (number % 2), input_tokens=number,
            output_tokens=1, cached_tokens=1, nanodollars=None if number % 3 else number,
        )
        for number, (tenant, user, model) in enumerate(
            product(("acme", "zeta"), ("", "ann", "bob"), ("m", "n", "m"))
        )
    ]  # fmt: skip
    days = day_of(NOW), day_of(NOW + 86_400)

    async def totals(stores: SQLiteStores) -> list[object]:
        users = product(("acme", "zeta"), (None, "ann", "bob", "cid"))
        return [await stores.usage.totals(tenant, *days, user) for tenant, user in users]

    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        for record in used:
            await opened.usage.settle(record)
        kept = await totals(opened)
    make_file_of_version_5(path)
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        assert await totals(opened) == kept
        assert len(await opened.usage.records("acme", days[0])) == 5
        await opened.usage.settle(replace(used[4], epoch=2, model="other"))
        (_, of_ann, *_) = await totals(opened)
        assert of_ann != kept[1]


async def test_usage_records_that_an_earlier_program_wrote_are_counted_as_kept(path: Path) -> None:
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        for number in range(3):
            await opened.usage.settle(replace(USED, response_id=f"r{number}"))
    make_file_of_version_5(path)
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        await opened.usage.settle(replace(USED, response_id="new"))
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT * FROM kept_bytes").fetchall()
    assert kept == [("t", 4 * USAGE_BYTES)]


async def test_a_count_that_an_earlier_program_did_not_bound_opens_nevertheless(path: Path) -> None:
    SQLiteStores(path, lambda: NOW).close()
    make_file_of_version_5(path)
    counted = '{"model": "m", "input_tokens": 9223372036854775807, "nanodollars": null}'
    for number in range(3):
        change(
            path,
            f"INSERT INTO usage_records VALUES ('t', 'r{number}', '2026-11-24', '', '{counted}', "  # noqa: S608
            "'{}', 9e12)",
        )
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        (totals,) = await opened.usage.totals("t", "2026-11-24", "2026-11-24")
    assert (totals.answers, totals.input_tokens, totals.nanodollars) == (3, 3 * 10**12, 0)


def test_a_file_that_the_version_before_uses_is_left_to_it(path: Path) -> None:
    make_file_of_version_1(path)
    lock = ProcessLock(path)
    with pytest.raises(FileUnusable, match="a program of that version is using it: stop that"):
        SQLiteStores(path, lambda: NOW)
    lock.release()
    SQLiteStores(path, lambda: NOW).close()


def test_an_upgraded_file_has_the_tables_of_a_new_one(path: Path, tmp_path: Path) -> None:
    make_file_of_version_1(path)
    tables = ("responses", "sessions", "messages", *LATER_TABLES, *LAST_TABLES)
    columns = []
    for each in (path, tmp_path / "new.db"):
        SQLiteStores(each, lambda: NOW).close()
        with closing(sqlite3.connect(each)) as connection:
            columns.append(
                [connection.execute(f"PRAGMA table_info({table})").fetchall() for table in tables]
            )
    assert columns[0] == columns[1]


def test_a_new_file_can_shrink_though_others_begin_to_use_it_at_the_same_time(path: Path) -> None:
    path.parent.mkdir()
    lock = ProcessLock(path)
    prepare(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    lock.release()


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    change(path, "CREATE TABLE theirs (x)")
    with pytest.raises(FileUnusable, match="another program's database"):
        SQLiteStores(path, lambda: NOW)


@pytest.mark.parametrize(
    "content",
    [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4_096],
    ids=["text", "torn"],
)
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "evenflow.db"
    path.write_bytes(content)
    with pytest.raises(FileUnusable, match="a file that this process can write"):
        SQLiteStores(path, lambda: NOW)
    assert path.read_bytes() == content


def test_a_connection_makes_no_file_in_the_place_of_one_that_is_gone(path: Path) -> None:
    path.parent.mkdir()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(path)
    assert not path.exists()


def test_a_name_may_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=ro#%20ü.db"
    SQLiteStores(path, lambda: NOW).close()
    assert path.stat().st_size


def test_where_no_file_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for path in (tmp_path / "taken" / "evenflow.db", tmp_path):
        with pytest.raises(FileUnusable, match="a file that this process can write"):
            SQLiteStores(path, lambda: NOW)


# -- later -----------------------------------------------------------------------------------------


async def test_while_another_process_writes_for_long_the_store_is_unavailable(
    path: Path, opened: SQLiteStores, stores: Stores
) -> None:
    lease = await stores.begin("a")
    channel, message = new_channel(), new_message(None)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"evenflow\.db: database is locked"):
            await opened.sessions.accept(channel, message, NOW)
        with pytest.raises(StoreUnavailable):
            await opened.responses.append([chunk(lease, 0, ["a"])])
        with pytest.raises(DeadLettersUnavailable):
            await opened.dead_letters.send(LETTER)
        assert await stores.read(lease.response_id) == []
        other.execute("ROLLBACK")
    await stores.write(lease, 0, ["a"])
    assert await stores.read(lease.response_id) == ["a"]
    assert (await opened.sessions.load(channel, NOW)).last_message_id is None


async def test_reads_of_answers_do_not_wait_for_a_report(
    opened: SQLiteStores, stores: Stores
) -> None:
    lease, gate = await stores.begin("a"), Event()
    await opened.usage.settle(USED)
    held = asyncio.create_task(opened.usage._reports.run(lambda _: gate.wait(10)))
    reports = [
        asyncio.create_task(report)
        for report in (
            opened.usage.totals("t", USED.day, USED.day),
            opened.usage.committed("t", ["c"]),
            opened.usage.answers_reserved("t"),
            opened.usage.records("t", USED.day),
        )
    ]
    async with asyncio.timeout(5):
        assert await stores.read(lease.response_id) == []
        assert await opened.usage.reservation("t", "r") is None
    assert not any(report.done() for report in reports)
    gate.set()
    await asyncio.gather(*reports, held)
    (totals,) = await opened.usage.totals("t", USED.day, USED.day)
    assert totals.answers == 1


def allow(connection: sqlite3.Connection, pages: int) -> None:
    connection.execute(f"PRAGMA max_page_count={pages}")


async def test_when_the_disk_is_full_nothing_is_torn_and_what_was_kept_can_be_read(
    opened: SQLiteStores, stores: Stores
) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a"])
    await opened._writes.run(partial(allow, pages=1))
    with pytest.raises(StoreUnavailable, match="full"):
        await opened.responses.append([chunk(lease, 1, ["b"]), chunk(lease, 2, ["x" * 100_000])])
    assert await stores.read(lease.response_id) == ["a"]
    await opened._writes.run(partial(allow, pages=100_000))
    await stores.write(lease, 1, ["b"])
    assert await stores.read(lease.response_id) == ["a", "b"]


async def test_a_text_that_cant_be_kept_keeps_no_other_out(stores: Stores) -> None:
    lease, other = await stores.begin("a"), await stores.begin("a")
    broken = chunk(lease, 0, ["\ud800"])
    with pytest.raises(Unwritable) as refused:
        await stores.responses.append([broken, chunk(other, 0, ["a"])])
    assert (list(refused.value.chunks), list(refused.value.left)) == ([broken], [])
    assert await stores.read(other.response_id) == ["a"]


async def test_what_was_asked_for_is_done_before_it_closes(path: Path) -> None:
    opened = SQLiteStores(path, lambda: NOW)
    lease = await Stores(opened.responses, opened.sessions).begin("a")
    opened.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await opened.responses.head(lease.response_id, NOW)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["evenflow.db"]


async def test_what_has_expired_is_deleted(path: Path) -> None:
    now = NOW
    with closing(SQLiteStores(path, lambda: now)) as opened:
        stores = Stores(opened.responses, opened.sessions)
        lease = await stores.begin("a")
        await stores.write(lease, 0, ["a"])
        await stores.responses.finish(lease, completed(1), NOW + 300)
        await stores.responses.renew("a", NOW + 10)
        await opened.large_texts.put("long", "x")
        await opened.dead_letters.send(LETTER)
        tables = ("responses", "chunks", "messages")
        now = NOW + 299
        await opened.room.tidy()
        assert [count(path, table) for table in tables] == [1, 1, 1]
        now = NOW + 310
        await opened.room.tidy()
        assert [count(path, table) for table in tables] == [0, 0, 1]
        now = NOW + 15 * LIFETIME_SECONDS
        await opened.room.tidy()
        others = ("messages", "sessions", "leases", "large_texts", "dead_letters")
        assert [count(path, table) for table in others] == [0, 0, 0, 0, 0]


# -- beside the ledger -----------------------------------------------------------------------------


async def test_large_texts_are_kept_under_their_names(opened: SQLiteStores) -> None:
    await opened.large_texts.put("one", "日本語\0" * 100_000)
    for _ in range(2):
        await opened.large_texts.put("two", "")
    assert await opened.large_texts.get("one") == "日本語\0" * 100_000
    assert await opened.large_texts.get("two") == ""
    assert await opened.large_texts.get("three") is None
    for _ in range(2):
        await opened.large_texts.delete("two")
    assert await opened.large_texts.get("two") is None


async def test_a_dead_letter_is_kept_once(path: Path, opened: SQLiteStores) -> None:
    for _ in range(2):
        await opened.dead_letters.send(LETTER)
    assert count(path, "dead_letters") == 1


# -- processes that ended --------------------------------------------------------------------------


async def test_the_leases_of_a_process_that_ended_are_lost_at_once(
    path: Path, opened: SQLiteStores
) -> None:
    killed = SQLiteStores(path, lambda: NOW)
    left = await Stores(killed.responses, killed.sessions).begin("killed")
    await killed.responses.renew("killed", NOW + 10)
    await opened.responses.renew("alive", NOW + 10)

    async def lost() -> dict[str, bool]:
        return {lease.owner: lease.lost for lease in await opened.responses.leases()}

    assert await lost() == {"killed": False, "alive": False}
    killed._reads.close()
    killed._writes.close()
    os.close(killed._lock.descriptor)  # as the kernel does
    assert await lost() == {"killed": True, "alive": False}
    assert await opened.responses.take_over(left.response_id, "alive", NOW) is not None
    with pytest.raises(LeaseLost):
        await opened.responses.renew("killed", NOW + 10)
