"""What shares a transaction, in which order, and what one that fails takes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.stores.session_store import NotAccepted
from evenflow.stream_sqlite.file import prepare
from evenflow.stream_sqlite.pipe import Frames, frame
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.transactions import StoreCall, Transactions, single
from evenflow.stream_sqlite.writer import WriteOrder


@pytest.fixture
def transactions(prepared_file: Path) -> Iterator[Transactions]:
    with closing(Transactions(prepared_file, writes=True)) as running:
        yield running


def kinds(outcomes: Sequence[object]) -> list[object]:
    return [type(it) if isinstance(it, Exception) else it for it in outcomes]


def test_calls_of_one_operation_are_one_call(transactions: Transactions) -> None:
    called = list[list[int]]()

    def double(_: Connection, numbers: Sequence[int]) -> Sequence[int | Exception]:
        called.append([*numbers])
        return [NotAccepted("odd") if number % 2 else 2 * number for number in numbers]

    calls = [StoreCall(double, number) for number in range(4)]
    calls.insert(2, StoreCall(single(lambda _: "between")))
    assert kinds(transactions.run(calls)) == [0, NotAccepted, "between", 4, NotAccepted]
    assert called == [[0, 1, 2, 3]]


def test_one_that_fails_takes_none_of_the_others_with_it(transactions: Transactions) -> None:
    def double(_: Connection, numbers: Sequence[int]) -> Sequence[int | Exception]:
        if 1 in numbers:
            raise ValueError(numbers)
        return [2 * number for number in numbers]

    calls = [StoreCall(double, number) for number in range(3)]
    assert kinds(transactions.run(calls)) == [0, ValueError, 4]


def test_a_file_that_cant_be_used_is_tried_again_with_each_call(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "evenflow.db"
    call = StoreCall(single(lambda connection: connection.total_changes))
    with closing(Transactions(path, writes=True)) as transactions:
        (refused,) = transactions.run([call])
        assert isinstance(refused, StoreUnavailable)
        assert str(refused).startswith(f"EVENFLOW_STORE_PATH={path}: ")
        prepare(path)
        assert transactions.run([call]) == [0]


async def test_reads_that_wait_share_a_transaction(prepared_file: Path) -> None:
    said = list[str]()
    begun, go_on = Event(), Event()

    def hold(connection: Connection) -> None:
        begun.set()
        go_on.wait(5)
        connection.set_trace_callback(said.append)

    with closing(Reads(prepared_file)) as reads:
        holding = asyncio.create_task(reads.run(hold))
        await asyncio.to_thread(begun.wait, 5)
        asked = [
            asyncio.create_task(reads.run(lambda connection: connection.in_transaction))
            for _ in range(4)
        ]
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(*asked) == [True] * 4
        await holding
    assert said == ["COMMIT", "BEGIN", "COMMIT"]


async def test_what_only_reads_can_not_write(prepared_file: Path) -> None:
    with closing(Reads(prepared_file)) as reads, pytest.raises(StoreUnavailable, match="readonly"):
        await reads.run(lambda connection: connection.execute("DELETE FROM sessions"))
    with pytest.raises(StoreUnavailable, match="is closed"):
        await reads.run(lambda connection: connection.total_changes)


def test_what_is_urgent_comes_first_and_a_few_others_go_along() -> None:
    def taken() -> list[int]:
        return [number for number, _ in order.take()]

    order, call = WriteOrder(), StoreCall(single(lambda _: None))
    for number in range(10):
        order.add(number, call)
    urgent = StoreCall(call.operation, urgent=True)
    order.add(10, urgent)
    order.add(11, urgent)
    assert taken() == [10, 11, 0, 1, 2, 3]
    order.add(12, urgent)
    assert taken() == [12, 4, 5, 6, 7]
    assert (taken(), len(order), taken()) == ([8, 9], 0, [])
    for number in range(40):
        order.add(number, call)
    assert taken() == [*range(10)], "a quarter of many"


@given(st.lists(st.binary(max_size=40), max_size=6), st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    values: list[bytes], data: st.DataObject
) -> None:
    sent = b"".join(map(frame, values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    frames = Frames()
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert [value for piece in pieces for value in frames.feed(piece)] == values
