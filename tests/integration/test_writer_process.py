"""The process that writes for a handler: it is killed, told to stop, given too much."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from subprocess import Popen

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_sqlite import writes as module
from evenflow.stream_sqlite.process_lock import ProcessLock
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.stores import SQLiteStores
from evenflow.stream_sqlite.writes import Writes
from tests.integration.stores.stores import NOW

Started = list[Popen[bytes]]
LARGE = 4_000_000  # more than a pipe holds


def put(connection: Connection, name: str, text: str = "") -> str:
    insert = "INSERT INTO large_texts (name, text, expires_at) VALUES (?, ?, 1e12)"
    connection.execute(insert, (name, text))
    return text


def kill_itself(_: Connection, how: signal.Signals) -> None:
    os.kill(os.getpid(), how)


def fail(_: Connection) -> None:
    raise OddError(1, 2)


class OddError(Exception):
    """It can't be made again from what pickle keeps of it."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one + other)


class Unreadable:
    """A result that pickle writes and can't read."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return int, ("one",)


def give_unreadable(_: Connection) -> Unreadable:
    return Unreadable()


def names(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM large_texts ORDER BY name")]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The processes, in their order."""
    processes, start = Started(), module._started

    def noting(path: Path, descriptor: int, kept_open: Sequence[int]) -> Popen[bytes]:
        processes.append(start(path, descriptor, kept_open))
        return processes[-1]

    monkeypatch.setattr(module, "_started", noting)
    return processes


@pytest.fixture
async def writes(prepared_file: Path, started: Started) -> AsyncIterator[Writes]:
    with closing(Writes(prepared_file)) as running:
        yield running
    assert all(process.returncode is not None for process in started)


async def test_a_killed_one_is_started_again_and_what_it_had_committed_is_kept(
    prepared_file: Path, writes: Writes, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    await writes.run(partial(put, name="before"))
    with pytest.raises(StoreUnavailable, match="exit code -9"):
        await writes.run(partial(kill_itself, how=signal.SIGKILL))
    assert "the process that writes it has ended (exit code -9)" in caplog.text
    await asyncio.wait_for(writes.run(partial(put, name="behind")), 10)
    assert len(started) == 2
    with closing(Reads(prepared_file)) as reads:
        assert await reads.run(names) == ["before", "behind"]


async def test_a_result_that_can_not_be_read_fails_the_call_and_another_process_goes_on(
    writes: Writes, started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreUnavailable, match="has ended"):
        await asyncio.wait_for(writes.run(give_unreadable), 10)
    assert "can't be read" in caplog.text
    await asyncio.wait_for(writes.run(partial(put, name="on")), 10)
    assert len(started) == 2


async def test_who_stops_the_whole_group_does_not_stop_it(writes: Writes, started: Started) -> None:
    for how in (signal.SIGINT, signal.SIGTERM):
        await writes.run(partial(kill_itself, how=how))
    await writes.run(partial(put, name="on"))
    assert len(started) == 1


async def test_large_calls_and_results_pass_each_other_also_while_it_is_closed(
    prepared_file: Path, writes: Writes
) -> None:
    asked = [
        asyncio.create_task(writes.run(partial(put, name=f"{number}", text="x" * LARGE)))
        for number in range(3)
    ]
    await asyncio.sleep(0)
    writes.close()
    assert [len(text) for text in await asyncio.gather(*asked)] == [LARGE] * 3
    with closing(Reads(prepared_file)) as reads:
        assert await reads.run(names) == ["0", "1", "2"]


async def test_what_can_not_go_through_the_pipe_fails_alone(
    writes: Writes, started: Started
) -> None:
    found = await asyncio.gather(
        writes.run(partial(put, name="one")),
        writes.run(lambda _: None),
        writes.run(fail),
        return_exceptions=True,
    )
    assert found[0] == ""
    assert "pickle" in str(found[1])
    assert isinstance(found[2], RuntimeError)
    assert "OddError: 3" in str(found[2])
    assert len(started) == 1


async def test_the_lock_of_a_killed_handler_is_held_until_its_writer_has_ended(
    prepared_file: Path, started: Started
) -> None:
    opened, other = SQLiteStores(prepared_file, lambda: NOW), ProcessLock(prepared_file)
    lock = opened._lock
    await opened.responses.renew("a", NOW + 10)
    os.close(lock.descriptor)  # as the kernel does
    assert not other.is_gone(lock.name)
    opened._writes.close()
    assert other.is_gone(lock.name)
    opened._reads.close()
    other.release()


async def test_one_that_cant_be_started_is_unavailable(
    prepared_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(prepared_file.with_name("none")))
    with (
        closing(Writes(prepared_file)) as writes,
        pytest.raises(StoreUnavailable, match="be started"),
    ):
        await writes.run(partial(put, name="one"))
