"""Files that are deleted or replaced while they are in use."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_sqlite.process_lock import ProcessLock
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, new_channel, new_message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "evenflow.db"


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[SQLiteStores]:
    with closing(SQLiteStores(path, lambda: NOW)) as stores:
        await Stores(stores.responses, stores.sessions).begin("a")
        await stores.responses.leases()
        assert look(stores, 0) is None
        yield stores


def look(stores: SQLiteStores, now: float, *, needs_tenants: bool = False) -> str | None:
    return stores.watch.look(now, needs_tenants=needs_tenants)


def make_another(path: Path) -> str:
    with closing(SQLiteStores(path, lambda: NOW)) as another:
        return another.signing_key


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def delete_file(path: Path) -> None:
    path.unlink()


def replace_file(path: Path) -> None:
    make_another(path.with_name("another.db"))
    path.with_name("another.db").replace(path)


def delete_log(path: Path) -> None:
    path.with_name("evenflow.db-wal").unlink()


@pytest.mark.parametrize("harm", [delete_folder, delete_file, replace_file, delete_log])
async def test_it_is_noticed_and_said_once(
    opened: SQLiteStores, path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    harm(path)
    for now in (1, 2, 3):
        assert look(opened, now) is None
    assert opened.watch.is_lost
    for call in (
        opened.sessions.accept(new_channel(), new_message(None), NOW),
        opened.responses.leases(),
    ):
        with pytest.raises(StoreUnavailable, match="deleted or replaced while in use"):
            await call
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"EVENFLOW_STORE_PATH={path}" in line.getMessage()
    assert "Put a copy back, or restart" in line.getMessage()


@pytest.mark.parametrize("harm", [delete_folder, delete_file])
async def test_another_file_is_used_when_there_is_one(
    opened: SQLiteStores, path: Path, harm: Callable[[Path], None]
) -> None:
    harm(path)
    assert look(opened, 1) is None
    assert look(opened, 9) is None  # there is none
    assert opened.watch.is_lost
    key = make_another(path)
    assert key != opened.signing_key
    assert look(opened, 10) == key
    assert not opened.watch.is_lost
    channel, message = new_channel(), new_message(None)
    await opened.sessions.accept(channel, message, NOW)
    assert (await opened.sessions.load(channel, NOW)).last_message_id == message.message_id
    assert look(opened, 11) is None
    assert not opened.watch.is_lost


async def test_a_file_without_tenants_is_not_used_where_there_were_some(
    opened: SQLiteStores, path: Path
) -> None:
    delete_folder(path)
    assert look(opened, 1, needs_tenants=True) is None
    key = make_another(path)
    assert look(opened, 9, needs_tenants=True) is None
    assert opened.watch.is_lost
    with closing(SQLiteStores(path, lambda: NOW)) as another:
        await another.tenants.put(Tenant(id="acme"), 0)
    assert look(opened, 10, needs_tenants=True) == key


async def test_another_programs_file_is_not_used(opened: SQLiteStores, path: Path) -> None:
    delete_file(path)
    assert look(opened, 1) is None
    for beside in path.parent.glob("evenflow.db-[ws]*"):
        beside.unlink()
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE theirs (x)")
    assert look(opened, 9) is None
    assert opened.watch.is_lost


async def test_a_file_that_is_moved_back_has_what_was_in_it(
    opened: SQLiteStores, path: Path
) -> None:
    channel, message = new_channel(), new_message(None)
    await opened.sessions.accept(channel, message, NOW)
    away = path.parent.rename(path.parent.with_name("away"))
    assert look(opened, 1) is None
    assert opened.watch.is_lost
    away.rename(path.parent)
    assert look(opened, 9) == opened.signing_key
    assert (await opened.sessions.load(channel, NOW)).last_message_id == message.message_id


async def test_what_was_written_into_a_deleted_log_is_kept(
    opened: SQLiteStores, path: Path
) -> None:
    delete_log(path)
    channel, message = new_channel(), new_message(None)
    await opened.sessions.accept(channel, message, NOW)
    assert look(opened, 1) is None
    assert look(opened, 9) == opened.signing_key
    assert (await opened.sessions.load(channel, NOW)).last_message_id == message.message_id


# -- the lock of a process -------------------------------------------------------------------------


async def test_a_deleted_lock_is_made_anew(
    opened: SQLiteStores, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other, name = ProcessLock(path), opened._lock.name
    lock = path.with_name(f"evenflow.db-process-{name}")
    lock.unlink()
    assert not other.is_gone(name)
    for now in (1, 2):
        assert look(opened, now) is None
    assert lock.exists()
    assert not other.is_gone(name)
    assert lock.exists()
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "was deleted, and was made anew" in line.getMessage()
    await opened.sessions.accept(new_channel(), new_message(None), NOW)
    other.release()


def test_a_process_whose_lock_stays_away_has_ended(path: Path) -> None:
    make_another(path)
    now = 0.0
    killed, other = ProcessLock(path), ProcessLock(path, lambda: now)
    killed.release()
    assert not other.is_gone(killed.name)
    now = 1.9
    assert not other.is_gone(killed.name)
    now = 2.0
    assert other.is_gone(killed.name)
    assert not other.is_gone(other.name)
    other.release()


# -- the log of writes -----------------------------------------------------------------------------


async def test_the_log_shrinks_when_a_long_read_has_ended(opened: SQLiteStores, path: Path) -> None:
    log = path.with_name("evenflow.db-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        for number in range(8):
            text = Random(number).randbytes(1_200_000).hex()
            await opened.large_texts.put(f"text {number}", text)
        assert log.stat().st_size > 8_000_000
        reader.execute("COMMIT")
    for _ in range(3):
        await opened.large_texts.put("another text", "x")
    assert log.stat().st_size <= 4_194_304
