"""Messages that are put on record together: as if one came after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.stores.session_store import LedgerEntry, NotAccepted
from evenflow.stream_sqlite.acceptance import Accepting, accept_all
from evenflow.stream_sqlite.expiry import delete_expired
from evenflow.stream_sqlite.file import connect, prepare
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


def test_what_has_expired_is_deleted() -> None:
    old = Accepting("t:a:old", LedgerEntry("m1", None, "hi", "r1", "task"), NOW, NOW + 60)
    new = old._replace(channel="t:a:new", now=NOW + 90_000, expires_at=NOW + 99_000)
    with new_file() as connection:
        accept_all(connection, [old])
        accept_all(connection, [new._replace(entry=replace(new.entry, response_id="r2"))])
        assert [len(table) for table in rows(connection)] == [2, 2, 2]
        delete_expired(connection, NOW + 90_000)
        assert [len(table) for table in rows(connection)] == [1, 1, 1]
        assert "r1" not in str(rows(connection))


def test_however_many_messages_there_are_no_statement_looks_through_all_of_them() -> None:
    first = Accepting("t:a:s", LedgerEntry("m1", None, "hi", "r1", "task"), NOW, NOW + 60)
    second = first._replace(channel="t:a:o", entry=replace(first.entry, response_id="r2"))
    said = list[str]()
    with new_file() as connection:
        connection.set_trace_callback(said.append)
        accept_all(connection, [first, second])
        connection.set_trace_callback(None)
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {statement}") for statement in said]
        steps = [step for plan in plans for *_, step in plan.fetchall()]
    assert any(step.startswith("SEARCH message") for step in steps)
    assert [step for step in steps if step.startswith(("SCAN message", "SCAN response"))] == []
