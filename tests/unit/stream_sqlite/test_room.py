"""A file has a size: the sender with most is refused first, and what is free is given back."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evenflow.stream_core.base.channel import RESPONSE, Channel
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS
from evenflow.stream_core.stores.session_store import StoreFull
from evenflow.stream_sqlite.kept_bytes import Holder
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.reserve import Reserve
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, new_channel, new_message, new_name
from tests.unit.stream_sqlite.small_disk import MIB, SmallDisk
from tests.unit.stream_sqlite.test_kept_bytes import File

MOST = 4 * MIB
TEXT = b64encode(Random(7).randbytes(48_000)).decode()


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "evenflow.db")


@pytest.fixture
def opened(file: File) -> Iterator[SQLiteStores]:
    with closing(file.open(MOST)) as stores:
        yield stores


async def send(
    stores: SQLiteStores, sender: str, text: str = "hello", tenant: str = "tenant"
) -> None:
    """One message of a new session."""
    channel = Channel(tenant, "agent", new_name("session"))
    message = replace(new_message(None, text), sender_digest=sender)
    await stores.sessions.accept(channel, message, NOW)


async def fill(stores: SQLiteStores, sender: str, tenant: str = "tenant") -> int:
    """Send until there is no room. Returns how many were accepted."""
    for accepted in range(200):
        try:
            await send(stores, sender, TEXT, tenant)
        except StoreFull:
            return accepted
    raise AssertionError("nothing stops it")


async def test_the_sender_that_fills_it_is_refused_and_others_are_not(
    file: File, opened: SQLiteStores, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await fill(opened, "greedy")
        assert await fill(opened, "greedy") == 0
    assert 0.6 * MOST < file.check_counts()["tenant:greedy"] < 0.8 * MOST
    (line,) = caplog.messages
    assert "EVENFLOW_STORE_BYTES=4194304 allows 4 MiB" in line
    for sender in ("", "another"):
        await send(opened, sender)
    await send(opened, "greedy", tenant="other")


async def test_the_log_says_so_before_a_sender_is_refused(
    file: File, opened: SQLiteStores, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(48):
            await send(opened, "steady", TEXT)
            if number in (20, 46, 47):
                await opened.room.tidy()
    (line,) = caplog.messages
    assert "of the 4 MiB that EVENFLOW_STORE_BYTES=4194304 allows" in line


async def test_of_those_that_come_together_each_knows_the_others(
    file: File, opened: SQLiteStores
) -> None:
    outcomes = await asyncio.gather(
        *(send(opened, "greedy", TEXT) for _ in range(200)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {type(None), StoreFull}
    assert 0.6 * MOST < file.check_counts()["tenant:greedy"] < 0.8 * MOST
    await send(opened, "another")


async def test_what_is_written_during_a_look_at_the_file_is_not_forgotten(
    opened: SQLiteStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(58):
        await send(opened, "greedy", TEXT)
    written, run = asyncio.Event(), Reads.run

    async def read_and_wait(reads: Reads, read: Callable[[sqlite3.Connection], Any]) -> Any:
        monkeypatch.setattr(Reads, "run", run)
        found = await run(reads, read)
        await written.wait()
        return found

    with suppress(ConnectionError):
        async with opened.room.reserve(Holder("third", "sender"), MIB // 2):
            monkeypatch.setattr(Reads, "run", read_and_wait)
            looking = asyncio.ensure_future(send(opened, "another", tenant="other"))
            await asyncio.sleep(0)
            for _ in range(7):
                await send(opened, "another", TEXT, tenant="other")
            raise ConnectionError  # this one is not written
    written.set()
    await looking
    with pytest.raises(StoreFull):
        await send(opened, "greedy", TEXT)


async def test_it_stays_so_for_other_processes_and_after_the_next_start(file: File) -> None:
    with closing(file.open(MOST)) as one, closing(file.open(MOST)) as other:
        await fill(one, "greedy")
        await other.room.tidy()
        assert await fill(other, "greedy") <= 1
        await send(other, "another")
    with closing(file.open(MOST)) as again:
        assert await fill(again, "greedy") <= 1
        await send(again, "another")


async def test_when_what_it_has_is_gone_there_is_room_again(
    file: File, opened: SQLiteStores
) -> None:
    accepted = await fill(opened, "greedy")
    file.now = NOW + LIFETIME_SECONDS + 1
    await opened.room.tidy()
    assert abs(await fill(opened, "greedy") - accepted) <= 2


async def test_a_refused_message_leaves_nothing(file: File, opened: SQLiteStores) -> None:
    await fill(opened, "greedy")
    tables = ("messages", "responses", "sessions", "large_texts")
    before = [file.rows(f"SELECT count(*) FROM {table}") for table in tables]  # noqa: S608
    long = replace(new_message(None, Random(7).randbytes(100_000).hex()), kind=RESPONSE.to_text())
    with pytest.raises(StoreFull):
        await opened.sessions.accept(new_channel(), replace(long, sender_digest="greedy"), NOW)
    assert [file.rows(f"SELECT count(*) FROM {table}") for table in tables] == before  # noqa: S608


async def test_the_disk_is_a_bound_too(
    file: File, small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(file.open()) as stores:
        Reserve(file.path).allocate()
        small_disk.file, small_disk.free_bytes = file.path, 30 * MIB
        with caplog.at_level(logging.WARNING):
            assert await fill(stores, "greedy") > 0
        assert f"the disk of EVENFLOW_STORE_PATH={file.path}" in caplog.text
        await send(stores, "another")
        small_disk.free_bytes = 20 * MIB
        with pytest.raises(StoreFull):
            await send(stores, "another")


async def test_on_a_full_disk_the_log_says_so_once_and_it_goes_on_by_itself(
    file: File, small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(file.open()) as stores, caplog.at_level(logging.ERROR):
        await stores.room.tidy()
        assert Reserve(file.path).allocate()
        small_disk.free_bytes = 0
        await stores.room.tidy()
        assert caplog.messages == []
        Reserve(file.path).release(MIB)
        for _ in range(2):
            await stores.room.tidy()
        (line,) = caplog.messages
        assert "the disk is full" in line
        small_disk.free_bytes = 40 * MIB
        await stores.room.tidy()
        await send(stores, "another")


# -- what is free ----------------------------------------------------------------------------------


async def test_the_file_shrinks_when_much_of_it_has_expired(file: File) -> None:
    with closing(file.open()) as stores:
        for seed in range(16):
            text = Random(seed).randbytes(1_000_000).hex()
            message = replace(new_message(None, text), kind=RESPONSE.to_text())
            await stores.sessions.accept(new_channel(), message, NOW)
        await stores.room.tidy()
        assert file.path.stat().st_size > 12 * MIB
        file.now = NOW + LIFETIME_SECONDS + 1
        for _ in range(4):
            await stores.room.tidy()
        assert file.path.stat().st_size < 6 * MIB


async def test_thousands_of_rows_go_in_few_steps(file: File, opened: SQLiteStores) -> None:
    for number in range(1_200):
        await opened.responses.renew(f"task {number}", NOW - 2 * LIFETIME_SECONDS)
    await opened.room.tidy()
    assert file.rows("SELECT count(*) FROM leases") == [(0,)]
