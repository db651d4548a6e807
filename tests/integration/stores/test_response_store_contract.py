"""What the port of the response store promises, held against each implementation."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import Ending, Lease, LeaseLost
from tests.integration.stores.stores import (
    LIFETIME,
    NOW,
    Stores,
    chunk,
    completed,
    lease_of,
    new_channel,
    new_message,
    new_name,
)

# -- reading ---------------------------------------------------------------------------------------


async def test_an_accepted_message_has_an_empty_response(stores: Stores) -> None:
    channel, message = new_channel(), new_message(None, owner="a")
    lease = await stores.sessions.accept(channel, message, NOW)
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    assert (head.response_id, head.channel, head.message_id) == (
        message.response_id,
        str(channel),
        message.message_id,
    )
    assert (head.lease, head.starts, head.polls, head.ending) == (
        Lease(message.response_id, "a", 1),
        {1: 0},
        0,
        None,
    )
    assert head.created_at == NOW
    assert head.expires_at > NOW
    stored = await stores.responses.entries(lease.response_id, 0, NOW)
    assert (stored.first_index, list(stored.entries), stored.next_index, stored.began_at) == (
        0,
        [],
        0,
        None,
    )
    assert stored.head == head


async def test_chunks_are_read_in_the_order_of_their_indexes(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 3, ["d"])
    await stores.write(lease, 0, ["a"])
    await stores.write(lease, 1, ["b", "c"])
    assert await stores.read(lease.response_id) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("seed", range(2))
async def test_readers_see_a_growing_prefix_while_chunks_arrive_in_any_order(
    stores: Stores, seed: int
) -> None:
    lease = await stores.begin("a")
    entries = [f"{index} " for index in range(120)]
    chunks = [
        chunk(lease, first, entries[first : first + 3]) for first in range(0, len(entries), 3)
    ]
    random.Random(seed).shuffle(chunks)
    before: list[object] = []
    for first in range(0, len(chunks), 10):
        assert list(await stores.responses.append(chunks[first : first + 10])) == []
        seen: list[object] = [*await stores.read(lease.response_id)]
        assert seen == entries[: len(seen)]
        assert len(seen) >= len(before)
        before = seen
    assert before == entries


async def test_a_missing_chunk_is_a_delay_not_a_gap(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a", "b"])
    await stores.write(lease, 3, ["d"])
    assert await stores.read(lease.response_id) == ["a", "b"]
    assert await stores.read(lease.response_id, 2) == []
    await stores.write(lease, 2, ["c"])
    assert await stores.read(lease.response_id, 2) == ["c", "d"]


async def test_without_its_first_chunk_a_response_reads_as_empty(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 1, ["b"])
    assert await stores.read(lease.response_id) == []


async def test_a_chunk_that_is_written_again_changes_nothing(stores: Stores) -> None:
    lease = await stores.begin("a")
    for _ in range(3):
        await stores.write(lease, 0, ["a", "b"])
    assert await stores.read(lease.response_id) == ["a", "b"]


async def test_one_call_may_hold_a_chunk_twice(stores: Stores) -> None:
    lease = await stores.begin("a")
    twice = chunk(lease, 0, ["a", "b"])
    assert list(await stores.responses.append([twice, twice])) == []
    assert await stores.read(lease.response_id) == ["a", "b"]


@pytest.mark.parametrize(
    "ranges", [[(0, 4), (2, 6)], [(2, 6), (0, 4)], [(0, 3), (0, 6)], [(0, 6), (1, 3)]]
)
async def test_overlapping_chunks_are_read_once(
    stores: Stores, ranges: list[tuple[int, int]]
) -> None:
    lease = await stores.begin("a")
    for first, end in ranges:
        await stores.write(lease, first, list("abcdef"[first:end]))
    assert await stores.read(lease.response_id) == list("abcdef")


@pytest.mark.parametrize("firsts", [[0, 2], [2, 0]])
async def test_chunks_that_end_together_do_not_displace_each_other(
    stores: Stores, firsts: list[int]
) -> None:
    lease = await stores.begin("a")
    for first in firsts:
        await stores.write(lease, first, list("abcd"[first:]))
    assert await stores.read(lease.response_id) == list("abcd")


async def test_many_chunks_in_one_call(stores: Stores) -> None:
    lease = await stores.begin("a")
    assert (
        list(
            await stores.responses.append(
                [chunk(lease, index, [f"{index} "]) for index in range(60)]
            )
        )
        == []
    )
    assert await stores.read(lease.response_id) == [f"{index} " for index in range(60)]


async def test_no_chunks_in_one_call(stores: Stores) -> None:
    assert list(await stores.responses.append([])) == []


async def test_one_call_may_hold_chunks_of_several_responses(stores: Stores) -> None:
    leases = [await stores.begin("a") for _ in range(3)]
    chunks = [
        chunk(lease, index, [f"{lease.response_id}:{index}"])
        for index in (1, 0)
        for lease in leases
    ]
    assert list(await stores.responses.append(chunks)) == []
    for lease in leases:
        wanted = [f"{lease.response_id}:0", f"{lease.response_id}:1"]
        assert await stores.read(lease.response_id) == wanted


async def test_reading_from_any_index_also_in_the_middle_of_a_chunk(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, list("abc"))
    await stores.write(lease, 3, list("defg"))
    for from_index in range(9):
        stored = await stores.responses.entries(lease.response_id, from_index, NOW)
        assert (stored.first_index, list(stored.entries)) == (
            from_index,
            list("abcdefg"[from_index:]),
        )


async def test_indexes_of_several_digits_stay_in_order(stores: Stores) -> None:
    lease = await stores.begin("a")
    for first in (99, 9, 0, 10, 100):
        end = {0: 9, 9: 10, 10: 99, 99: 100, 100: 120}[first]
        await stores.write(lease, first, [f"{index} " for index in range(first, end)])
    assert await stores.read(lease.response_id, 8) == [f"{index} " for index in range(8, 120)]


async def test_when_the_first_delta_came_is_known_up_to_the_end(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.responses.append(
        [chunk(lease, 0, ["a", "b"], NOW + 0.25), chunk(lease, 2, ["c"], NOW + 0.25)]
    )
    for from_index, wanted in (
        (0, NOW + 0.25),
        (1, NOW + 0.25),
        (2, NOW + 0.25),
        (3, NOW + 0.25),
        (4, None),
        (9, None),
    ):
        stored = await stores.responses.entries(lease.response_id, from_index, NOW + 1)
        assert stored.began_at == wanted


# -- what entries may hold -------------------------------------------------------------------------


async def test_restart_markers_keep_their_index(stores: Stores) -> None:
    lease = await stores.begin("a")
    entries: list[LogEntry] = [
        "draft",
        Restart(-1, 1),
        "the ",
        "answer",
        Restart(3, 2, 2),
        "end",
        Restart(0, 3, 17),
    ]
    await stores.write(lease, 0, entries[:3])
    await stores.write(lease, 3, entries[3:])
    assert await stores.read(lease.response_id) == entries
    assert await stores.read(lease.response_id, 4) == entries[4:]


async def test_any_text_comes_back_as_it_was(stores: Stores) -> None:
    lease = await stores.begin("a")
    entries = [
        "",
        "\n\r\n\t",
        " ",
        '"\\/',
        "\x00\x01\x7f",
        "äöü",
        "日本語",
        "👩‍👩‍👧",
        "e\u0301",
        "\u2028\ufeff",
        "[1,2]",
        "null",
    ]
    await stores.write(lease, 0, entries)
    assert await stores.read(lease.response_id) == entries


async def test_an_empty_text_is_an_entry(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, [""])
    await stores.write(lease, 1, ["", "a", ""])
    assert await stores.read(lease.response_id) == ["", "", "a", ""]


@pytest.mark.parametrize("letter", ["x", "\n", "é", "語", "👩"])
async def test_a_chunk_of_64k_characters(stores: Stores, letter: str) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, [letter * 65_536])
    assert await stores.read(lease.response_id) == [letter * 65_536]


async def test_a_response_of_several_megabytes(stores: Stores) -> None:
    lease = await stores.begin("a")
    entries = [f"{index}" + "x" * 65_000 for index in range(40)]
    for first in range(0, 40, 10):
        chunks = [chunk(lease, index, [entries[index]]) for index in range(first, first + 10)]
        assert list(await stores.responses.append(chunks)) == []
    assert await stores.read(lease.response_id) == entries
    assert await stores.read(lease.response_id, 17) == entries[17:]


# -- ending ----------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
FAILURE = {"code": "model_failed", "message": "ä\n", "retry_after_ms": 2000}
ENDINGS = [
    Ending(ResponseState.COMPLETED, 7, NOW + 1.25, "stop", USAGE),
    Ending(ResponseState.COMPLETED, 1, NOW, "length", degraded=True),
    Ending(ResponseState.CANCELLED, 3, NOW, "cancelled"),
    Ending(ResponseState.ERROR, 0, NOW, error=FAILURE),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: str(ending.state))
async def test_the_head_says_how_it_ended(stores: Stores, ending: Ending) -> None:
    lease = await stores.begin("a")
    await stores.responses.finish(lease, ending, NOW + 300)
    head = await stores.responses.head(lease.response_id, NOW + 299)
    assert head is not None
    assert (head.ending, head.expires_at) == (ending, NOW + 300)


async def test_the_first_ending_stays_and_a_repetition_changes_nothing(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.responses.finish(lease, completed(3), NOW + 300)
    await stores.responses.finish(lease, completed(3), NOW + 300)
    first = await stores.responses.head(lease.response_id, NOW)
    await stores.responses.finish(
        lease, Ending(ResponseState.CANCELLED, 9, NOW, "cancelled"), NOW + 300
    )
    assert await stores.responses.head(lease.response_id, NOW) == first
    assert first is not None
    assert first.ending == completed(3)


async def test_a_repeated_ending_does_not_move_its_expiry(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.responses.finish(lease, completed(3), NOW + 300)
    await stores.responses.finish(lease, completed(3), NOW + 900)
    assert await stores.responses.head(lease.response_id, NOW + 400) is None


@pytest.mark.parametrize("change", [{"epoch": 2}, {"epoch": 0}, {"owner": "b"}], ids=str)
async def test_only_the_owner_ends_a_response(stores: Stores, change: dict[str, object]) -> None:
    lease = await stores.begin("a")
    other = replace(lease, **change)  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):
        await stores.responses.finish(other, completed(0), NOW + 300)
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    assert head.ending is None


async def test_an_unknown_response_can_not_be_ended(stores: Stores) -> None:
    with pytest.raises(LeaseLost):
        await stores.responses.finish(Lease(new_name("response"), "a", 1), completed(0), NOW + 300)


# -- expiry and polls ------------------------------------------------------------------------------


async def test_what_has_expired_is_not_there(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a"])
    await stores.responses.finish(lease, completed(1), NOW + 300)
    assert await stores.read(lease.response_id, now=NOW + 299) == ["a"]
    for now in (NOW + 300, NOW + 301, NOW + 90_000):
        assert await stores.responses.head(lease.response_id, now) is None
        assert await stores.responses.note_read(lease.response_id, now) is None
        assert await stores.read(lease.response_id, now=now) == []


async def test_the_text_of_a_long_answer_is_kept_as_long_as_its_head(stores: Stores) -> None:
    """It began long before it ended, and the head is kept from its end on."""
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a"])
    ended_at = NOW + 1_800
    await stores.responses.finish(lease, completed(1), ended_at + LIFETIME)
    last_moment = ended_at + LIFETIME - 2
    assert await stores.responses.head(lease.response_id, last_moment) is not None
    assert await stores.read(lease.response_id, now=last_moment) == ["a"]


async def test_an_unfinished_response_expires_too(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a"])
    assert await stores.responses.head(lease.response_id, NOW + LIFETIME - 2) is not None
    assert await stores.responses.head(lease.response_id, NOW + LIFETIME) is None


async def test_reads_are_counted(stores: Stores) -> None:
    lease = await stores.begin("a")
    for count in (1, 2, 3):
        noted = await stores.responses.note_read(lease.response_id, NOW)
        assert noted is not None
        assert noted.polls == count
        assert await stores.responses.head(lease.response_id, NOW) == noted
    attempts = [stores.responses.note_read(lease.response_id, NOW) for _ in range(10)]
    counted = sorted(head.polls for head in await asyncio.gather(*attempts) if head is not None)
    assert counted == list(range(4, 14))


async def test_polls_survive_a_take_over_and_the_end(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    await stores.responses.note_read(old.response_id, NOW)
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    await stores.responses.note_read(old.response_id, NOW)
    await stores.responses.finish(new, completed(0), NOW + 300)
    head = await stores.responses.note_read(old.response_id, NOW)
    assert head is not None
    assert (head.polls, head.ending) == (3, completed(0))


@pytest.mark.parametrize("unknown", [new_name("response"), "leases"], ids=["any", "leases"])
async def test_an_unknown_response_is_not_there(stores: Stores, unknown: str) -> None:
    await stores.responses.renew("00000007", NOW + 10)  # is kept beside the responses
    assert await stores.responses.head(unknown, NOW) is None
    assert await stores.responses.note_read(unknown, NOW) is None
    for from_index in (0, 3):
        stored = await stores.responses.entries(unknown, from_index, NOW)
        assert (stored.first_index, list(stored.entries), stored.began_at) == (from_index, [], None)
        assert stored.head is None
    assert await stores.responses.head(unknown, NOW) is None  # counting the poll has not made one


async def test_what_is_written_to_an_unknown_response_stays_unread(stores: Stores) -> None:
    lease = Lease(new_name("response"), "a", 1)
    await stores.write(lease, 0, ["a"])
    assert await stores.read(lease.response_id) == []
    assert await stores.responses.head(lease.response_id, NOW) is None


async def test_deleted_responses_are_gone_with_their_entries(stores: Stores) -> None:
    running, ended, kept = [await stores.begin(f"task-{name}") for name in "abc"]
    for lease in (running, ended, kept):
        for index in range(30):
            await stores.write(lease, index, [str(index)])
    await stores.responses.finish(ended, completed(30), NOW + 300)
    for _ in range(2):
        await stores.responses.delete([running.response_id, ended.response_id, "unknown"])
    for lease in (running, ended):
        assert await stores.responses.head(lease.response_id, NOW) is None
        assert await stores.read(lease.response_id) == []
    assert await stores.responses.unfinished("task-a") == []
    assert len(await stores.read(kept.response_id)) == 30
    with pytest.raises(LeaseLost):
        await stores.responses.finish(running, completed(30), NOW + 300)
