"""Messages that are put on record together: as if one came after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.ports.response_store import StoreUnavailable
from stream_core.ports.session_store import LedgerEntry, NotAccepted
from stream_sqlite.acceptance import Accepting, accept_all
from stream_sqlite.file import connect, prepare
from stream_sqlite.transactions import Transactions
from tests.integration.stores.stores import NOW

SELECT = "SELECT * FROM "
TABLES = ("responses", "sessions", "messages")
# SQLite's JSON would cut it.
ZERO = "a\0b"


@contextmanager
def new_file() -> Iterator[Connection]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "evenflow.db"
        prepare(path)
        with closing(connect(path)) as connection:
            yield connection


def rows(connection: Connection) -> list[list[tuple[object, ...]]]:
    """What is on record, without the numbers of responses."""
    return [
        sorted(row[table == "responses" :] for row in connection.execute(SELECT + table))
        for table in TABLES
    ]


def outcomes(connection: Connection, *together: Sequence[Accepting]) -> list[tuple[bool, str]]:
    """Of each message whether it was accepted, and what is said."""
    return [
        (not isinstance(outcome, NotAccepted), str(outcome))
        for messages in together
        for outcome in accept_all(connection, messages)
    ]


@st.composite
def messages(draw: st.DrawFn) -> Accepting:
    """One of few sessions, message ids and responses, so that many are in each other's way."""
    session = draw(st.sampled_from(["t:a:one", "t:a:two", f"t:a:{ZERO}"]))
    names = st.sampled_from(["m1", "m2", ZERO])
    message_id = draw(names)
    entry = LedgerEntry(
        message_id,
        draw(st.none() | names),
        draw(st.text(max_size=3) | st.just(ZERO)),
        # A response has one message.
        f"{session} {message_id} {draw(st.sampled_from('ab'))}",
        "task",
        terms=draw(st.sampled_from(["", "terms"])),
    )
    now = NOW + draw(st.sampled_from([0.0, 50.0]))
    return Accepting(session, entry, now, now + draw(st.sampled_from([20.0, 100.0])))


@given(st.lists(messages(), max_size=12), st.booleans())
def test_together_they_are_accepted_as_if_one_came_after_the_other(
    asked: list[Accepting], is_ended: bool
) -> None:
    with new_file() as together, new_file() as in_turn:
        for connection in (together, in_turn):
            if is_ended:
                connection.execute("INSERT INTO sessions VALUES ('t:a:two', '', ?, 1)", (NOW + 90,))
        assert outcomes(together, asked) == outcomes(in_turn, *([each] for each in asked))
        assert rows(together) == rows(in_turn)


def test_who_asks_again_for_what_is_on_record_is_told_the_same() -> None:
    first = Accepting("t:a:s", LedgerEntry("m1", None, "hi", "r1", "task"), NOW, NOW + 60)
    other = first._replace(entry=LedgerEntry("m1", None, "hi", "r2", "task"))
    following = first._replace(entry=LedgerEntry("m2", "m1", "and", "r3", "task"))
    with new_file() as connection:
        told = outcomes(connection, [first, first, other, following, first])
        assert [accepted for accepted, _ in told] == [True, True, False, True, True]
        assert [len(table) for table in rows(connection)] == [2, 1, 2]


@contextmanager
def transactions(path: Path, *, writes: bool = True) -> Iterator[Transactions]:
    prepare(path)
    running = Transactions(path, writes=writes)
    try:
        yield running
    finally:
        running.close()


@pytest.mark.parametrize("writes", [True, False])
async def test_reads_or_urgent_writes_that_wait_for_a_transaction_are_one_call(
    tmp_path: Path, writes: bool
) -> None:
    called = list[list[int]]()

    def double(_: Connection, numbers: Sequence[int]) -> Sequence[int | Exception]:
        called.append([*numbers])
        return [NotAccepted("odd") if number % 2 else 2 * number for number in numbers]

    with transactions(tmp_path / "evenflow.db", writes=writes) as running:
        begun, go_on = Event(), Event()

        def hold(_: Connection) -> None:
            begun.set()
            go_on.wait(5)

        holding = asyncio.create_task(running.run(hold))
        await asyncio.to_thread(begun.wait, 5)
        asked = [
            asyncio.create_task(running.run_together(double, number, urgent=writes))
            for number in range(4)
        ]
        await asyncio.sleep(0)
        go_on.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        await holding
    assert called == [[0, 1, 2, 3]]
    assert (found[0], found[2]) == (0, 4)
    assert [type(found[number]) for number in (1, 3)] == [NotAccepted, NotAccepted]


async def test_what_is_urgent_comes_first_and_others_have_their_turn_between(
    tmp_path: Path,
) -> None:
    called = list[list[str]]()

    def note(_: Connection, names: Sequence[str]) -> Sequence[str | Exception]:
        called.append([*names])
        if names == ["urgent"]:
            ask("later", urgent=True)
        return names

    with transactions(tmp_path / "evenflow.db") as running:
        loop, asked = asyncio.get_running_loop(), list[asyncio.Task[object]]()

        def ask(name: str, *, urgent: bool) -> None:
            """Called in the thread of the transactions. Returns when it waits for one."""
            added = Event()

            def add() -> None:
                asked.append(loop.create_task(running.run_together(note, name, urgent=urgent)))
                loop.call_soon(added.set)

            loop.call_soon_threadsafe(add)
            added.wait(5)

        def hold(_: Connection) -> None:
            for number in range(5):
                ask(f"{number}", urgent=False)
            ask("urgent", urgent=True)

        await running.run(hold)
        await asked[5]
        await asyncio.gather(*asked)
    assert called == [["urgent"], ["0", "1"], ["later"], ["2", "3"], ["4"]]


async def test_one_that_fails_takes_none_of_the_others_with_it(tmp_path: Path) -> None:
    def double(_: Connection, numbers: Sequence[int]) -> Sequence[int | Exception]:
        if 1 in numbers:
            raise ValueError(numbers)
        return [2 * number for number in numbers]

    with transactions(tmp_path / "evenflow.db") as running:
        found = await asyncio.gather(
            *(running.run_together(double, number) for number in range(3)), return_exceptions=True
        )
        assert (found[0], found[2]) == (0, 4)
        assert isinstance(found[1], ValueError)
    with pytest.raises(StoreUnavailable):
        await running.run_together(double, 4)
