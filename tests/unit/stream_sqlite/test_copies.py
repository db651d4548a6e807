"""Copies of the file: made while it is written, checked, and put back."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from evenflow.stream_sqlite.copies import CopyFailed, back_up, check, restore
from evenflow.stream_sqlite.file import connect, prepare
from evenflow.stream_sqlite.process_lock import ProcessLock


def _nothing(_share: float) -> None:
    pass


def add_session(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO sessions VALUES (?, 'm', 1e10, 0)", (f"s{number}",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "evenflow.db"
    prepare(path)
    with closing(connect(path)) as connection:
        for number in range(100):
            add_session(connection, number)
    return path


def test_a_copy_has_what_is_only_in_the_write_ahead_log(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint=0")
        add_session(connection, 1_000)
        back_up(path, copy, _nothing)
    assert check(copy).sessions == 101
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.glob("copy.db*")) == ["copy.db"]


def test_a_copy_ends_while_others_write(path: Path, tmp_path: Path) -> None:
    is_over = threading.Event()

    def write() -> None:
        with closing(connect(path)) as connection:
            number = 1_000
            while not is_over.is_set():
                add_session(connection, number)
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            back_up(path, tmp_path / f"copy{number}.db", _nothing)
    finally:
        is_over.set()
        writer.join()
    counts = [check(tmp_path / f"copy{number}.db") for number in range(5)]
    assert [found.faults for found in counts] == [[]] * 5
    assert counts[0].sessions >= 100


def test_its_progress_reaches_the_end(path: Path, tmp_path: Path) -> None:
    shares = list[float]()
    back_up(path, tmp_path / "copy.db", shares.append)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\0" * 84])
def test_what_is_no_store_is_not_copied_and_nothing_is_left(content: bytes, tmp_path: Path) -> None:
    source = tmp_path / "other.db"
    source.write_bytes(content)
    with pytest.raises(CopyFailed):
        back_up(source, tmp_path / "copy.db", _nothing)
    assert [each.name for each in tmp_path.iterdir()] == ["other.db"]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CopyFailed, match="was not copied"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db", _nothing)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_told(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bytearray(path.read_bytes())
    pages[8_192:] = b"\xff" * (len(pages) - 8_192)
    path.write_bytes(pages)
    try:
        faults = check(path).faults
    except CopyFailed as error:
        faults = [str(error)]
    assert faults


def test_a_copy_takes_the_place_of_the_file_which_is_kept(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    back_up(path, copy, _nothing)
    with closing(connect(path)) as connection:
        add_session(connection, 1_000)
    kept = restore(copy, path, _nothing)
    assert kept is not None
    assert (check(path).sessions, check(kept).sessions) == (100, 101)
    prepare(path)


def test_a_file_in_use_is_not_replaced(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    back_up(path, copy, _nothing)
    lock = ProcessLock(path)
    with pytest.raises(CopyFailed, match="a server uses"):
        restore(copy, path, _nothing)
    lock.release()
    assert restore(copy, path, _nothing) is not None


def test_a_copy_is_restored_where_there_was_nothing(path: Path, tmp_path: Path) -> None:
    copy, new = tmp_path / "copy.db", tmp_path / "new" / "evenflow.db"
    back_up(path, copy, _nothing)
    assert restore(copy, new, _nothing) is None
    assert check(new).sessions == 100
