"""What has expired takes no memory.

All else that these stores promise is in the contract of the stores.
"""

from __future__ import annotations

from dataclasses import replace

from evenflow.stream_core.base.channel import CHAT_OF_INTERFACE, COMPLETION, RESPONSE
from evenflow.stream_core.stores.memory_store import (
    MemoryLargeTexts,
    MemoryResponseStore,
    MemorySessionStore,
)
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS
from evenflow.stream_core.stores.session_store import LARGE_TEXT_SECONDS
from tests.integration.stores.stores import NOW, Stores, completed, new_channel, new_message


async def test_expired_responses_and_messages_are_dropped_with_the_next_message() -> None:
    responses = MemoryResponseStore()
    sessions = MemorySessionStore(responses)
    stores = Stores(responses, sessions)
    ended, unfinished = await stores.begin("a"), await stores.begin("a")
    await stores.write(ended, 0, ["a"])
    await responses.hand_over(ended)
    await responses.finish(ended, completed(1), NOW + 300)
    channel, first = new_channel(), new_message(None)
    await sessions.accept(channel, first, NOW + 300)
    assert (
        list(responses._heads)
        == list(responses._chunks)
        == [unfinished.response_id, first.response_id]
    )
    assert not responses._handed_over
    second = new_message(first)
    await sessions.accept(channel, second, NOW + LIFETIME_SECONDS)
    assert list(responses._heads) == [first.response_id, second.response_id]
    assert list(sessions._sessions) == [channel]
    await sessions.accept(channel, new_message(second), NOW + LIFETIME_SECONDS + 300)
    assert first.message_id not in sessions._sessions[channel].entries
    assert len(sessions._expiries._moments) == len(responses._expiries._moments) == 2


async def test_texts_are_dropped_when_their_messages_are_forgotten() -> None:
    now = NOW
    texts = MemoryLargeTexts(lambda: now)
    await texts.put("one", "a")
    now += 10
    await texts.put("two", "b")
    await texts.put("one", "a")
    now += LARGE_TEXT_SECONDS - 5
    assert await texts.get("two") == "b"
    now += 5
    assert await texts.get("two") is None
    await texts.put("three", "c")
    assert list(texts._texts) == ["three"]


async def test_the_text_of_a_request_is_dropped_when_its_answer_has_ended() -> None:
    texts = MemoryLargeTexts(lambda: NOW)
    sessions = MemorySessionStore(MemoryResponseStore(), texts)
    kind = COMPLETION.to_text()
    small = replace(new_message(None, "x" * 100_000), kind=kind)
    large = replace(new_message(None, ""), kind=kind, text_name="large")
    await texts.put("large", "x" * 1_000_000)
    for message in (small, large):
        channel = new_channel()
        await sessions.accept(channel, message, NOW)
        assert (await sessions.load(channel, NOW)).messages == [message]
        await sessions.record_answer(channel, message.message_id, None)
        assert (await sessions.load(channel, NOW)).messages == [
            replace(message, text="", ended=True)
        ]
    assert await texts.get("large") is None
    assert not texts._texts


async def test_the_text_of_a_request_that_is_recalled_is_kept_as_long_as_its_answer() -> None:
    texts, responses = MemoryLargeTexts(lambda: NOW), MemoryResponseStore()
    sessions = MemorySessionStore(responses, texts)
    channel, message = new_channel(), replace(new_message(None), kind=RESPONSE.to_text())
    lease = await sessions.accept(channel, message, NOW)
    await responses.finish(lease, completed(0), NOW + 300)
    await sessions.record_answer(channel, message.message_id, None)
    for now, text in ((NOW + 299, message.text), (NOW + 301, "")):
        await sessions.accept(new_channel(), new_message(None), now)
        (entry,) = (await sessions.load(channel, now)).messages
        assert entry.text == text


async def test_of_a_chat_that_brings_its_conversation_only_the_newest_request_keeps_its_text() -> (
    None
):
    sessions = MemorySessionStore(MemoryResponseStore())
    channel, kind = new_channel(), CHAT_OF_INTERFACE.to_text()

    async def texts() -> list[str]:
        return [entry.text for entry in (await sessions.load(channel, NOW)).messages]

    first = replace(new_message(None), kind=kind, text="one")
    await sessions.accept(channel, first, NOW)
    await sessions.record_answer(channel, first.message_id, None)
    assert await texts() == ["one"]
    second = replace(new_message(first), kind=kind, text="one two")
    await sessions.accept(channel, second, NOW)
    assert await texts() == ["", "one two"]
    third = replace(new_message(second), kind=kind, text="one two three")
    await sessions.accept(channel, third, NOW)
    assert await texts() == ["", "one two", "one two three"], "its answer runs"
    await sessions.record_answer(channel, second.message_id, None)
    assert await texts() == ["", "", "one two three"]


async def test_messages_of_a_session_keep_theirs() -> None:
    sessions = MemorySessionStore(MemoryResponseStore())
    channel, first = new_channel(), new_message(None)
    await sessions.accept(channel, first, NOW)
    await sessions.record_answer(channel, first.message_id, "yes")
    await sessions.accept(channel, new_message(first), NOW)
    assert (await sessions.load(channel, NOW)).messages[0].text == first.text != ""
