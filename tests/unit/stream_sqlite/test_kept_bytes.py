"""Of each sender as much is counted as is kept, and texts go as soon as nobody can need them."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evenflow.stream_core.base.channel import (
    CHAT_OF_INTERFACE,
    COMPLETION,
    RESPONSE,
    Channel,
    MessageKind,
)
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS
from evenflow.stream_core.stores.session_store import LedgerEntry
from evenflow.stream_core.tenants.usage import UsageRecord
from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, completed, new_channel, new_message

LONG = b64encode(Random(7).randbytes(75_000)).decode()
USED = UsageRecord(
    tenant="tenant",
    response_id="r1",
    agent="agent",
    user="",
    key="",
    model="m",
    state="completed",
    ended_at=NOW,
)


@dataclass
class File:
    """A file and the time in it."""

    path: Path
    now: float = NOW

    def open(self, most_bytes: int = 2**40) -> SQLiteStores:
        return SQLiteStores(self.path, lambda: self.now, most_bytes=most_bytes)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def check_counts(self) -> dict[str, int]:
        """What is counted, by holder. It is what the rows have."""
        sums: Counter[str] = Counter()
        for channel, sender, size in self.rows("SELECT channel, sender, bytes FROM messages"):
            tenant = channel.partition(":")[0]
            sums.update({tenant: size})
            if sender:
                sums.update({f"{tenant}:{sender}": size})
        for tenant, records in self.rows(
            "SELECT tenant, count(*) FROM usage_records GROUP BY tenant"
        ):
            sums.update({tenant: USAGE_BYTES * records})
        counted = dict(self.rows("SELECT * FROM kept_bytes"))
        assert counted == dict(sums)
        return dict(sums)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "evenflow.db")


@pytest.fixture
def opened(file: File) -> Iterator[SQLiteStores]:
    with closing(file.open()) as stores:
        yield stores


def request(text: str, kind: MessageKind, previous: LedgerEntry | None = None) -> LedgerEntry:
    return replace(new_message(previous, text), kind=kind.to_text(), sender_digest="5e4de7")


async def text_of(opened: SQLiteStores, channel: Channel, message: LedgerEntry) -> str | None:
    """The text of a message, wherever it is kept."""
    entry = await opened.sessions.message(channel, message.message_id, NOW)
    assert entry is not None
    return entry.text if entry.text_name is None else await opened.large_texts.get(entry.text_name)


async def test_what_is_counted_is_what_is_kept(file: File, opened: SQLiteStores) -> None:
    channel, chat = new_channel(), replace(new_message(None), sender_digest="5e4de7")
    await opened.sessions.accept(channel, chat, NOW)
    before = file.check_counts()
    assert before["tenant"] == before["tenant:5e4de7"] > 1_024
    await opened.sessions.accept(channel, new_message(chat, LONG), NOW)
    assert file.check_counts()["tenant"] > 75_000 + before["tenant"]
    await opened.sessions.record_answer(channel, chat.message_id, "a long answer " * 100)
    assert file.check_counts()["tenant:5e4de7"] >= 1_400 + before["tenant:5e4de7"]
    without_request = file.check_counts()["tenant:5e4de7"]
    elsewhere, asked = new_channel(), request(LONG, COMPLETION)
    stores = Stores(opened.responses, opened.sessions)
    lease = await opened.sessions.accept(elsewhere, asked, NOW)
    await stores.write(lease, 0, ["said " * 1_000])

    await opened.sessions.record_answer(elsewhere, asked.message_id, None)
    assert file.check_counts()["tenant:5e4de7"] > 4_000 + without_request
    for _ in range(2):
        await opened.usage.settle(USED)
    assert file.check_counts()["tenant"] > USAGE_BYTES
    await opened.sessions.end(channel, NOW)
    file.check_counts()
    file.now = NOW + 100 * LIFETIME_SECONDS
    await opened.room.tidy()
    assert file.check_counts() == {}


async def test_a_message_in_the_place_of_one_that_has_expired_is_counted_once(
    file: File, opened: SQLiteStores
) -> None:
    channel, message = new_channel(), new_message(None, LONG)
    await opened.sessions.accept(channel, message, NOW)
    again = replace(new_message(None, "short"), message_id=message.message_id)
    await opened.sessions.accept(channel, again, NOW + LIFETIME_SECONDS + 2)
    assert file.check_counts()["tenant"] < 2_000


async def test_requests_that_say_the_same_again_and_again_take_little(
    file: File, opened: SQLiteStores
) -> None:
    """33 KB of gzip: a row of 3.3 MB, forty times."""
    noise = b64encode(Random(7).randbytes(29_000)).decode()
    texts = [f"{noise}{'a' * 3_250_000}{number}" for number in range(8)]
    for text in texts:
        await opened.sessions.accept(new_channel(), request(text, RESPONSE), NOW)
    names = [name for (name,) in file.rows("SELECT name FROM large_texts")]
    assert sorted([str(await opened.large_texts.get(name)) for name in names]) == sorted(texts)
    assert file.check_counts()["tenant"] < 8 * 60_000
    assert sum(each.stat().st_size for each in file.path.parent.glob("evenflow.db*")) < 2_000_000


@pytest.mark.parametrize("text", ["short", LONG], ids=["short", "long"])
async def test_the_text_of_a_request_is_deleted_when_its_answer_has_ended(
    file: File, opened: SQLiteStores, text: str
) -> None:
    channel, message = new_channel(), request(text, COMPLETION)
    await opened.sessions.accept(channel, message, NOW)
    assert await text_of(opened, channel, message) == text
    await opened.sessions.record_answer(channel, message.message_id, None)
    assert not await text_of(opened, channel, message)
    assert file.rows("SELECT * FROM large_texts") == []
    assert file.check_counts()["tenant"] < 2_000


@pytest.mark.parametrize("text", ["short", LONG], ids=["short", "long"])
async def test_the_text_of_a_request_that_is_recalled_is_kept_as_long_as_its_answer(
    file: File, opened: SQLiteStores, text: str
) -> None:
    channel, message = new_channel(), request(text, RESPONSE)
    lease = await opened.sessions.accept(channel, message, NOW)
    await opened.responses.finish(lease, completed(0), NOW + 300)
    await opened.sessions.record_answer(channel, message.message_id, None)
    for file.now, there in ((NOW + 299, True), (NOW + 301, False)):
        await opened.room.tidy()
        assert bool(await text_of(opened, channel, message)) is there
    assert file.rows("SELECT * FROM large_texts") == []
    file.check_counts()


@pytest.mark.parametrize("text", ["one", LONG], ids=["short", "long"])
async def test_of_a_chat_that_brings_its_conversation_the_newest_request_alone_keeps_its_text(
    file: File, opened: SQLiteStores, text: str
) -> None:
    channel, messages = new_channel(), list[LedgerEntry]()

    async def ask() -> LedgerEntry:
        last = messages[-1] if messages else None
        messages.append(request(text, CHAT_OF_INTERFACE, last))
        await opened.sessions.accept(channel, messages[-1], NOW)
        return messages[-1]

    async def kept() -> list[bool]:
        return [bool(await text_of(opened, channel, message)) for message in messages]

    first = await ask()
    await opened.sessions.record_answer(channel, first.message_id, None)
    assert await kept() == [True]
    second = await ask()
    assert await kept() == [False, True]
    await ask()
    assert await kept() == [False, True, True], "its answer runs"
    await opened.sessions.record_answer(channel, second.message_id, None)
    assert await kept() == [False, False, True]
    file.check_counts()


async def test_messages_of_a_chat_keep_theirs(file: File, opened: SQLiteStores) -> None:
    channel, first = new_channel(), new_message(None, LONG)
    lease = await opened.sessions.accept(channel, first, NOW)
    await Stores(opened.responses, opened.sessions).write(lease, 0, ["said " * 2_000])
    await opened.responses.finish(lease, completed(0), NOW + 300)
    await opened.sessions.record_answer(channel, first.message_id, "yes")
    await opened.sessions.accept(channel, new_message(first), NOW)
    before = file.check_counts()["tenant"]
    file.now = NOW + 301
    await opened.room.tidy()
    assert await text_of(opened, channel, first) == LONG
    assert file.check_counts()["tenant"] < before - 9_000, "its answer is kept once"


async def test_a_long_message_of_a_chat_is_compressed_and_the_same_wherever_it_is_read(
    file: File, opened: SQLiteStores
) -> None:
    channel, first = new_channel(), new_message(None, "日本語 " * 20_000)
    second = new_message(first, "short")
    for message in (first, second):
        await opened.sessions.accept(channel, message, NOW)
    assert file.check_counts()["tenant"] < 5_000
    assert await opened.sessions.message(channel, first.message_id, NOW) == first
    assert list((await opened.sessions.load(channel, NOW)).messages) == [first, second]
    ended = await opened.sessions.end(channel, NOW)
    assert sorted(ended, key=str) == sorted([first, second], key=str)
