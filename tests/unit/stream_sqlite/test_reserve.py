"""What of the disk is kept for the store itself, and when it is given up."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_sqlite.file import prepare
from evenflow.stream_sqlite.reserve import RESERVE_BYTES, Reserve
from evenflow.stream_sqlite.transactions import StoreCall, Transactions, single
from tests.unit.stream_sqlite.small_disk import MIB, SmallDisk


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "evenflow.db-reserve"


@pytest.fixture
def reserve(tmp_path: Path) -> Reserve:
    return Reserve(tmp_path / "evenflow.db")


def test_it_is_a_file_that_takes_room(reserve: Reserve, file: Path) -> None:
    for _ in range(2):
        assert reserve.allocate()
    assert file.stat().st_size == RESERVE_BYTES
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_where_the_system_can_not_allocate_it_is_written(
    reserve: Reserve, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    assert reserve.allocate()
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES


def test_messages_get_what_is_beyond_it(reserve: Reserve, small_disk: SmallDisk) -> None:
    small_disk.free_bytes = 30 * MIB
    before = reserve.room()
    assert 10 * MIB < before < 20 * MIB
    reserve.allocate()
    # The disk says the same, but a part of what is not free is the reserve now.
    assert reserve.room() == before + RESERVE_BYTES


def test_it_is_given_up_while_the_disk_is_full_and_made_again_afterwards(
    reserve: Reserve, file: Path, small_disk: SmallDisk
) -> None:
    reserve.allocate()
    small_disk.free_bytes = 20 * MIB
    assert not reserve.release(8 * MIB)
    small_disk.free_bytes = 1 * MIB
    assert [reserve.release(8 * MIB) for _ in range(2)] == [True, False]
    assert not file.exists()
    small_disk.free_bytes = 1 * MIB + RESERVE_BYTES
    assert not reserve.allocate()
    small_disk.free_bytes = 20 * MIB
    assert reserve.allocate()


def test_a_start_on_a_full_disk_has_its_room(
    tmp_path: Path, reserve: Reserve, file: Path, small_disk: SmallDisk
) -> None:
    reserve.allocate()
    prepare(tmp_path / "evenflow.db")
    assert file.exists()
    small_disk.free_bytes = 0
    prepare(tmp_path / "evenflow.db")
    assert not file.exists()


def test_a_write_that_finds_the_disk_full_is_made_again_with_it(
    prepared_file: Path, small_disk: SmallDisk
) -> None:
    reserve = Reserve(prepared_file)
    reserve.allocate()
    tries = list[bool]()

    def write(_: sqlite3.Connection) -> int:
        tries.append(reserve.allocate())
        if len(tries) % 2:
            raise sqlite3.OperationalError("database or disk is full")
        return len(tries)

    small_disk.free_bytes = 0
    call = StoreCall(single(write))
    with closing(Transactions(prepared_file, writes=True)) as transactions:
        assert transactions.run([call]) == [2]
        (refused,) = transactions.run([call])
    assert isinstance(refused, StoreUnavailable)
    assert tries == [True, False, False]
