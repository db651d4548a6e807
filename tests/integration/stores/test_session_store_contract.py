"""What the port of the ledger promises, held against each implementation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import (
    CHAT,
    COMPLETION,
    KEYED_COMPLETION,
    Channel,
    MessageKind,
)
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.outcome import Outcome
from evenflow.stream_core.stores.response_store import Lease
from evenflow.stream_core.stores.session_store import (
    LedgerEntry,
    NotAccepted,
    SessionStore,
    StoredConversation,
)
from tests.integration.stores.stores import (
    LIFETIME,
    LONG_LIFETIME,
    NOW,
    Stores,
    completed,
    new_channel,
    new_message,
    new_name,
)


async def conversation(
    stores: Stores, count: int, now: float = NOW
) -> tuple[Channel, list[LedgerEntry]]:
    """A session with so many messages, each of which follows the one before."""
    channel, messages = new_channel(), list[LedgerEntry]()
    for _ in range(count):
        messages.append(new_message(messages[-1] if messages else None))
        await stores.sessions.accept(channel, messages[-1], now)
    return channel, messages


async def loaded(
    stores: Stores, channel: Channel, now: float = NOW
) -> tuple[str | None, list[LedgerEntry]]:
    """What is known of a session."""
    stored = await stores.sessions.load(channel, now)
    return stored.last_message_id, list(stored.messages)


async def test_of_an_unknown_session_nothing_is_known(stores: Stores) -> None:
    stored = await stores.sessions.load(new_channel(), NOW)
    assert stored == StoredConversation(None, stored.messages)
    assert list(stored.messages) == []


async def test_the_first_message(stores: Stores) -> None:
    channel, message = new_channel(), new_message(None, "hello", owner="task-a")
    lease = await stores.sessions.accept(channel, message, NOW)
    assert lease == Lease(message.response_id, "task-a", 1)
    assert await loaded(stores, channel) == (message.message_id, [message])


async def test_messages_are_loaded_in_causal_order(stores: Stores) -> None:
    channel, messages = await conversation(stores, 12)
    assert await loaded(stores, channel) == (messages[-1].message_id, messages)


async def test_what_a_message_replaces_is_kept_with_it(stores: Stores) -> None:
    channel, first = new_channel(), new_message(None, "hello")
    await stores.sessions.accept(channel, first, NOW)
    again = replace(new_message(first, "hello"), replaces=first.message_id)
    await stores.sessions.accept(channel, again, NOW)
    assert await loaded(stores, channel) == (again.message_id, [first, again])


async def test_message_names_do_not_decide_the_order(stores: Stores) -> None:
    channel, previous = new_channel(), None
    for name in ("z", "m", "10", "9", "a", "Ω"):
        entry = LedgerEntry(name, previous, name, new_name("response"), "task-a")
        await stores.sessions.accept(channel, entry, NOW)
        previous = name
    _, entries = await loaded(stores, channel)
    assert [entry.message_id for entry in entries] == ["z", "m", "10", "9", "a", "Ω"]


async def test_what_a_message_says_beside_its_text_comes_back_as_it_was(stores: Stores) -> None:
    kind = COMPLETION.sent_with(Channel("acme", "demo", "ses_1")).to_text()
    said = replace(new_message(None, "hello"), terms=MessageTerms(user="zoe").to_text(), kind=kind)
    channel = new_channel()
    await stores.sessions.accept(channel, said, NOW)
    await stores.sessions.accept(channel, plain := new_message(said), NOW)
    assert await loaded(stores, channel) == (plain.message_id, [said, plain])
    assert MessageKind.from_text(plain.kind) == CHAT


@pytest.mark.parametrize(
    "text", ["", "\n", "日本語 👩‍👩‍👧", "x" * 65_536], ids=["empty", "newline", "unicode", "64 KB"]
)
async def test_any_text_comes_back_as_it_was(stores: Stores, text: str) -> None:
    channel, message = new_channel(), new_message(None, text)
    await stores.sessions.accept(channel, message, NOW)
    await stores.sessions.record_answer(channel, message.message_id, text)
    _, entries = await loaded(stores, channel)
    assert entries == [replace(message, answer=text, ended=True)]


async def test_a_message_that_does_not_follow_the_last_one_is_refused_and_changes_nothing(
    stores: Stores,
) -> None:
    channel, messages = await conversation(stores, 3)
    before = await loaded(stores, channel)
    unknown = replace(new_message(None), previous_message_id=new_name("message"))
    for refused in (new_message(None), new_message(messages[0]), new_message(messages[1]), unknown):
        with pytest.raises(NotAccepted):
            await stores.sessions.accept(channel, refused, NOW)
        assert await loaded(stores, channel) == before
        assert await stores.responses.head(refused.response_id, NOW) is None


async def test_in_an_unknown_session_a_message_can_not_follow_another(stores: Stores) -> None:
    channel, refused = new_channel(), replace(new_message(None), previous_message_id="elsewhere")
    with pytest.raises(NotAccepted):
        await stores.sessions.accept(channel, refused, NOW)
    assert await loaded(stores, channel) == (None, [])
    assert await stores.responses.head(refused.response_id, NOW) is None


async def test_a_known_message_with_another_response_is_refused(stores: Stores) -> None:
    channel, messages = await conversation(stores, 2)
    before = await loaded(stores, channel)
    for known in messages:
        again = replace(known, response_id=new_name("response"))
        with pytest.raises(NotAccepted):
            await stores.sessions.accept(channel, again, NOW)
        assert await stores.responses.head(again.response_id, NOW) is None
    circle = replace(
        messages[0], previous_message_id=messages[1].message_id, response_id=new_name("response")
    )
    with pytest.raises(NotAccepted):
        await stores.sessions.accept(channel, circle, NOW)
    assert await loaded(stores, channel) == before


@pytest.mark.parametrize("later", [0.0, 5.0])
async def test_repeating_a_call_that_succeeded_is_safe(stores: Stores, later: float) -> None:
    channel, messages = await conversation(stores, 2)
    before = await loaded(stores, channel)
    last = messages[-1]
    assert await stores.sessions.accept(channel, last, NOW + later) == Lease(
        last.response_id, last.owner, 1
    )
    assert await loaded(stores, channel) == before


async def test_a_repeated_call_does_not_reset_the_response(stores: Stores) -> None:
    channel, message = new_channel(), new_message(None)
    lease = await stores.sessions.accept(channel, message, NOW)
    await stores.write(lease, 0, ["a"])
    await stores.responses.finish(lease, completed(1), NOW + 300)
    await stores.sessions.accept(channel, message, NOW)
    head = await stores.responses.head(message.response_id, NOW)
    assert head is not None
    assert head.ending == completed(1)
    assert await stores.read(message.response_id) == ["a"]


@pytest.mark.parametrize("known", [0, 2])
async def test_of_many_tasks_that_race_for_one_previous_message_one_wins(
    stores: Stores, known: int
) -> None:
    channel, messages = await conversation(stores, known)
    racers = [
        new_message(messages[-1] if messages else None, owner=new_name("task")) for _ in range(6)
    ]
    results = await asyncio.gather(
        *(stores.sessions.accept(channel, racer, NOW) for racer in racers), return_exceptions=True
    )
    won = [
        racer for racer, result in zip(racers, results, strict=True) if isinstance(result, Lease)
    ]
    assert len(won) == 1
    assert sum(isinstance(result, NotAccepted) for result in results) == len(racers) - 1
    assert await loaded(stores, channel) == (won[0].message_id, [*messages, won[0]])
    for racer in racers:
        head = await stores.responses.head(racer.response_id, NOW)
        assert (head is not None) == (racer is won[0])


async def test_of_two_tasks_that_race_with_one_message_one_wins(stores: Stores) -> None:
    """The client repeats its message elsewhere while the first task has not answered yet."""
    channel, messages = await conversation(stores, 1)
    first = new_message(messages[-1], owner="task-a")
    second = replace(first, response_id=new_name("response"), owner="task-b")
    results = await asyncio.gather(
        *(stores.sessions.accept(channel, entry, NOW) for entry in (first, second)),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Lease", "NotAccepted"]


async def test_sessions_of_different_tenants_do_not_meet(stores: Stores) -> None:
    session, message = new_name("session"), new_message(None)
    channels = [Channel(tenant, agent, session) for tenant in ("t", "u") for agent in ("a", "b")]
    for channel in channels:
        own = replace(message, response_id=new_name("response"))
        await stores.sessions.accept(channel, own, NOW)
        assert await loaded(stores, channel) == (message.message_id, [own])


async def test_answers_are_part_of_the_history(stores: Stores) -> None:
    channel, messages = await conversation(stores, 3)
    await stores.sessions.record_answer(channel, messages[0].message_id, "first answer")
    await stores.sessions.record_answer(channel, messages[1].message_id, None)
    _, entries = await loaded(stores, channel)
    assert entries == [
        replace(messages[0], answer="first answer", ended=True),
        replace(messages[1], ended=True),
        messages[2],
    ]


async def test_an_answer_that_is_told_twice(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    for _ in range(2):
        await stores.sessions.record_answer(channel, messages[0].message_id, "answer")
    _, entries = await loaded(stores, channel)
    assert entries == [replace(messages[0], answer="answer", ended=True)]


async def test_an_answer_to_a_forgotten_message_is_nothing(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    await stores.sessions.record_answer(channel, new_name("message"), "answer")
    await stores.sessions.record_answer(new_channel(), new_name("message"), "answer")
    assert await loaded(stores, channel) == (messages[0].message_id, messages)


async def test_an_expired_session_is_not_there_and_starts_anew(stores: Stores) -> None:
    channel, messages = await conversation(stores, 2)
    later = NOW + LIFETIME + 2
    assert await loaded(stores, channel, later) == (None, [])
    with pytest.raises(NotAccepted):
        await stores.sessions.accept(channel, new_message(messages[-1]), later)
    first = new_message(None)
    assert await stores.sessions.accept(channel, first, later) == Lease(
        first.response_id, first.owner, 1
    )
    second = new_message(first)
    await stores.sessions.accept(channel, second, later)
    assert await loaded(stores, channel, later) == (second.message_id, [first, second])


async def test_a_name_may_come_back_after_it_has_expired(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    later = NOW + LIFETIME + 2
    again = replace(messages[0], response_id=new_name("response"))
    await stores.sessions.accept(channel, again, later)
    assert await loaded(stores, channel, later) == (again.message_id, [again])


async def test_each_message_keeps_its_session_alive(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    second = new_message(messages[0])
    await stores.sessions.accept(channel, second, NOW + LIFETIME - 10)
    last, entries = await loaded(stores, channel, NOW + LIFETIME + 10)
    assert last == second.message_id
    assert entries in ([second], [messages[0], second])  # the oldest may be forgotten
    third = new_message(second)
    await stores.sessions.accept(channel, third, NOW + LIFETIME + 10)
    _, entries = await loaded(stores, channel, NOW + LIFETIME + 20)
    assert entries[-2:] == [second, third]


async def test_a_long_session(stores: Stores) -> None:
    channel = new_channel()
    messages: list[LedgerEntry] = []
    for _ in range(24):
        messages.append(new_message(messages[-1] if messages else None, "x" * 60_000))
        await stores.sessions.accept(channel, messages[-1], NOW)
    assert await loaded(stores, channel) == (messages[-1].message_id, messages)


async def test_how_an_answer_ended_is_kept_with_it(stores: Stores) -> None:
    channel, messages = await conversation(stores, 2)
    outcome = Outcome(ResponseState.CANCELLED, ["Hel"]).to_text(None)
    await stores.sessions.record_answer(channel, messages[0].message_id, None, outcome)
    _, entries = await loaded(stores, channel)
    assert entries == [replace(messages[0], ended=True, outcome=outcome), messages[1]]


async def test_an_ended_session_has_nothing_and_takes_nothing(stores: Stores) -> None:
    channel, messages = await conversation(stores, 30)
    elsewhere, others = await conversation(stores, 1)
    ended = await stores.sessions.end(channel, NOW)
    assert sorted(entry.message_id for entry in ended) == sorted(
        entry.message_id for entry in messages
    )
    for refused in (messages[0], new_message(None), new_message(messages[-1])):
        with pytest.raises(NotAccepted):
            await stores.sessions.accept(channel, refused, NOW + 1)
    await stores.sessions.record_answer(channel, messages[0].message_id, "late")
    assert list(await stores.sessions.end(channel, NOW + 1)) == []
    stored = await stores.sessions.load(channel, NOW + 1)
    assert (stored.last_message_id, list(stored.messages), stored.ended) == (None, [], True)
    assert not (await stores.sessions.load(elsewhere, NOW)).ended
    assert await loaded(stores, elsewhere) == (others[0].message_id, others)


async def test_a_session_that_never_was_can_be_ended(stores: Stores) -> None:
    channel = new_channel()
    assert list(await stores.sessions.end(channel, NOW)) == []
    assert (await stores.sessions.load(channel, NOW)).ended


async def test_of_many_sessions_those_that_were_ended_are_told(stores: Stores) -> None:
    ended, running = [new_channel() for _ in range(2)], [new_channel() for _ in range(120)]
    for channel in (*ended, running[0]):
        await stores.sessions.accept(channel, new_message(None), NOW)
    for channel in ended:
        await stores.sessions.end(channel, NOW)
    assert await stores.sessions.find_ended([*running, *ended], NOW) == set(ended)
    assert await stores.sessions.find_ended(ended, NOW + LIFETIME + 2) == set()


async def test_when_no_token_of_an_ended_session_is_valid_any_more_its_name_is_free(
    stores: Stores,
) -> None:
    channel, _ = await conversation(stores, 1)
    await stores.sessions.end(channel, NOW)
    later, first = NOW + LIFETIME + 2, new_message(None)
    await stores.sessions.accept(channel, first, later)
    stored = await stores.sessions.load(channel, later)
    assert (list(stored.messages), stored.ended) == ([first], False)


async def test_of_a_message_and_the_end_of_its_session_that_race_nothing_is_left(
    stores: Stores,
) -> None:
    channel, messages = await conversation(stores, 1)
    following = new_message(messages[0])
    accepted, ended = await asyncio.gather(
        stores.sessions.accept(channel, following, NOW),
        stores.sessions.end(channel, NOW),
        return_exceptions=True,
    )
    assert isinstance(accepted, Lease | NotAccepted)
    assert not isinstance(ended, BaseException)
    assert (following in ended) == isinstance(accepted, Lease)
    stored = await stores.sessions.load(channel, NOW)
    assert (list(stored.messages), stored.ended) == ([], True)


async def test_messages_of_chats_are_kept_for_a_setting_and_whole_requests_for_a_day(
    long_kept: SessionStore,
) -> None:
    chat, request = new_channel(), new_channel()
    message = new_message(None)
    await long_kept.accept(chat, message, NOW)
    whole = replace(new_message(None), kind=KEYED_COMPLETION.to_text())
    await long_kept.accept(request, whole, NOW)
    later = NOW + LIFETIME + 2
    assert list((await long_kept.load(chat, later)).messages) == [message]
    assert list((await long_kept.load(request, later)).messages) == []
    assert list((await long_kept.load(chat, NOW + LONG_LIFETIME + 2)).messages) == []


async def test_a_session_is_read_message_by_message(stores: Stores) -> None:
    channel, messages = await conversation(stores, 3)
    head = await stores.sessions.head(channel, NOW)
    assert (head.last_message_id, head.ended) == (messages[-1].message_id, False)
    for message in messages:
        assert await stores.sessions.message(channel, message.message_id, NOW) == message
    assert await stores.sessions.message(channel, "unknown", NOW) is None
    later = NOW + LIFETIME + 2
    assert (await stores.sessions.head(channel, later)).last_message_id is None
    assert await stores.sessions.message(channel, messages[0].message_id, later) is None
    await stores.sessions.end(channel, NOW)
    head = await stores.sessions.head(channel, NOW)
    assert (head.last_message_id, head.ended) == (None, True)
    assert await stores.sessions.message(channel, messages[0].message_id, NOW) is None


async def test_the_links_say_which_versions_there_are(stores: Stores) -> None:
    channel, messages = await conversation(stores, 3)
    assert not (await stores.sessions.head(channel, NOW)).has_versions
    edited = replace(new_message(messages[-1]), replaces=messages[1].message_id)
    older = replace(new_message(edited, "y" * 3_000), parent_message_id=messages[2].message_id)
    for message in (edited, older):
        await stores.sessions.accept(channel, message, NOW)
        assert (await stores.sessions.head(channel, NOW)).has_versions
    everything = [*messages, edited, older]
    links = await stores.sessions.links(channel, older.message_id, NOW)
    assert list(links) == [message.link for message in everything]
    links = await stores.sessions.links(channel, messages[1].message_id, NOW)
    assert list(links) == [message.link for message in messages[:2]]
    assert await loaded(stores, channel) == (older.message_id, everything)
    later = NOW + LIFETIME + 2
    assert list(await stores.sessions.links(channel, older.message_id, later)) == []


async def test_a_session_that_begins_anew_has_no_versions(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    edited = replace(new_message(messages[0]), replaces=messages[0].message_id)
    await stores.sessions.accept(channel, edited, NOW)
    later = NOW + LIFETIME + 2
    assert not (await stores.sessions.head(channel, later)).has_versions
    await stores.sessions.accept(channel, new_message(None), later)
    assert not (await stores.sessions.head(channel, later)).has_versions


@pytest.mark.parametrize("size", [2_048, 2_049, 100_000])
async def test_a_message_is_the_same_however_long_its_text_is(stores: Stores, size: int) -> None:
    channel, first = new_channel(), new_message(None, "ä" * (size // 2) + "x" * (size % 2))
    second = new_message(first, "y" * size)
    for message in (first, second):
        await stores.sessions.accept(channel, message, NOW)
    assert await stores.sessions.accept(channel, second, NOW)  # an answer was lost: once more
    for message in (first, second):
        assert await stores.sessions.message(channel, message.message_id, NOW) == message
    assert await loaded(stores, channel) == (second.message_id, [first, second])
    await stores.sessions.record_answer(channel, first.message_id, "z" * size)
    first = replace(first, answer="z" * size, ended=True)
    assert await loaded(stores, channel) == (second.message_id, [first, second])
    assert sorted(await stores.sessions.end(channel, NOW), key=str) == sorted(
        (first, second), key=str
    )


async def test_a_refused_message_leaves_no_text(stores: Stores) -> None:
    channel, messages = await conversation(stores, 1)
    taken = replace(new_message(None, "y" * 3_000), message_id=messages[0].message_id)
    for refused in (taken, new_message(None, "x" * 3_000)):
        with pytest.raises(NotAccepted):
            await stores.sessions.accept(channel, refused, NOW)
    assert await loaded(stores, channel) == (messages[0].message_id, messages)
    assert list(await stores.sessions.end(channel, NOW)) == messages
