"""Pages of a conversation, however often it was replaced, and however long its texts are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator import session_messages
from evenflow.stream_core.ports.session_store import LedgerEntry, standing
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task


async def pages(task: Task, limit: int) -> list[list[str]]:
    """The messages of all pages, the newest page first."""
    before: str | None = None
    read: list[list[str]] = []
    while True:
        page = await task.orchestrator.messages.page(CHANNEL, before, limit)
        read.append([said.entry.message_id for said in page.messages])
        before = page.next_before
        if before is None:
            return read


async def accept(task: Task, *entries: LedgerEntry) -> None:
    for entry in entries:
        await task.shared.sessions.accept(CHANNEL, entry, task.clock.now)


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 4))
async def test_the_pages_are_the_conversation_in_pieces(replaced: list[int], limit: int) -> None:
    task = Task.alone()
    ledger: list[LedgerEntry] = []
    for number, named in enumerate(replaced):
        stand = [each.message_id for each in standing(ledger)]
        ledger.append(
            LedgerEntry(
                f"m{number}",
                f"m{number - 1}" if number else None,
                "?",
                f"rsp_{number}",
                "task",
                replaces=stand[named] if named < len(stand) else None,
            )
        )
    await accept(task, *ledger)
    read = await pages(task, limit)
    said = [message_id for page in reversed(read) for message_id in page]
    assert said == [each.message_id for each in standing(ledger)]
    assert all(len(page) == limit for page in read[:-1])


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
