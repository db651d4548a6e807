"""Pages of a conversation, however often it was replaced, and however long its texts are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator import session_messages
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.conversation_tree import ConversationTree
from evenflow.stream_core.stores.session_store import LedgerEntry, StoredConversation
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.stream_core.stores.conversation_model import CHOICES, ledger_of, version_of


async def pages(task: Task, limit: int, through: str | None = None) -> list[list[str]]:
    """The messages of all pages, the newest page first."""
    before: str | None = None
    read: list[list[str]] = []
    while True:
        page = await task.orchestrator.messages.page(CHANNEL, before, limit, through)
        through = None
        read.append([said.entry.message_id for said in page.messages])
        before = page.next_before
        if before is None:
            return read


async def accept(task: Task, *entries: LedgerEntry) -> None:
    for entry in entries:
        await task.shared.sessions.accept(CHANNEL, entry, task.clock.now)


@given(CHOICES, st.integers(1, 4))
async def test_the_pages_are_the_conversation_in_pieces(
    choices: list[tuple[str, int]], limit: int
) -> None:
    task = Task.alone()
    ledger = ledger_of(choices)
    await accept(task, *ledger)
    tree = ConversationTree(entry.link for entry in ledger)
    for through in (None, *(entry.message_id for entry in ledger)):
        read = await pages(task, limit, through)
        said = [message_id for page in reversed(read) for message_id in page]
        wanted = version_of(ledger) if through is None else tree.path_through(through)
        assert said == wanted
        assert all(len(page) == limit for page in read[:-1])


@given(CHOICES)
async def test_a_message_has_the_names_of_all_that_stand_in_its_place(
    choices: list[tuple[str, int]],
) -> None:
    task = Task.alone()
    ledger = ledger_of(choices)
    await accept(task, *ledger)
    tree = ConversationTree(entry.link for entry in ledger)
    page = await task.orchestrator.messages.page(CHANNEL, None, 100)
    for said in page.messages:
        versions = tree.versions_of(said.entry.message_id)
        assert said.versions == (versions if len(versions) > 1 else ())


async def test_what_a_task_of_an_earlier_release_has_noted_is_read_as_it_is() -> None:
    """It says of no session that it has versions, as in DynamoDB."""
    task = Task.alone()
    ledger = ledger_of([("n", 0), ("n", 0), ("n", 0), ("r", 1)])
    await accept(task, *ledger)
    sessions = task.shared._sessions
    head = sessions.head

    async def without_note(channel: Channel, now: float) -> StoredConversation:
        return replace(await head(channel, now), has_versions=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "head", without_note)
        assert await pages(task, 10) == [["m0", "m3"]]


async def test_a_page_of_long_texts_ends_sooner() -> None:
    task = Task.alone()
    long = "x" * (session_messages.MOST_BYTES_PER_PAGE // 3)
    await accept(
        task,
        *(
            LedgerEntry(f"m{n}", f"m{n - 1}" if n else None, long, f"rsp_{n}", "task")
            for n in range(5)
        ),
    )
    assert await pages(task, 100) == [["m1", "m2", "m3", "m4"], ["m0"]]


async def test_a_name_that_was_given_again_ends_the_page() -> None:
    """The first message has expired, and a later one has its name."""
    task = Task.alone()
    entries = [
        LedgerEntry(name, previous, "?", f"rsp_{name}", "task")
        for name, previous in (("a", None), ("b", "a"), ("c", "b"))
    ]
    await accept(task, *entries)
    stored = task.shared._sessions._sessions[CHANNEL].entries
    stored["a"] = LedgerEntry("a", "c", "?", "rsp_again", "task")
    task.shared._sessions._sessions[CHANNEL].last_message_id = "a"
    assert await pages(task, 10) == [["b", "c", "a"]]


async def test_the_versions_of_a_conversation_are_read_once_for_all_its_pages() -> None:
    task = Task.alone()
    reads = task.sessions.network.calls
    ledger = ledger_of([*[("n", 0)] * 4, ("r", 1), ("n", 0)])
    await accept(task, *ledger[:-1])
    assert await pages(task, 1) == [["m4"], ["m0"]]
    await pages(task, 1, "m3")
    assert reads["links"] == 1
    await accept(task, ledger[-1])
    assert await pages(task, 1) == [["m5"], ["m4"], ["m0"]]
    assert reads["links"] == 2
    task.clock.turn(61.0)
    await pages(task, 1)
    assert reads["links"] == 3, "messages expire"


async def test_it_is_kept_of_the_sessions_that_were_read_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_messages, "_MOST_TREES", 1)
    task = Task.alone()
    reads = task.sessions.network.calls
    ledger = ledger_of([("n", 0), ("r", 0)])
    other = Channel("public", "demo", "another")
    for channel in (CHANNEL, other):
        for entry in ledger:
            named = replace(entry, response_id=f"{channel.session}_{entry.response_id}")
            await task.shared.sessions.accept(channel, named, task.clock.now)
    for _ in range(2):
        await pages(task, 1)
        await task.orchestrator.messages.page(other, None, 1)
    assert reads["links"] == 4
