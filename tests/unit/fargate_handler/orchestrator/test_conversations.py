from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.conversations import Conversations
from evenflow.stream_core.base.channel import CHAT, KEYED_COMPLETION, Channel
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.session.conversation import Turn


def conversations_within(limits: Limits) -> Conversations:
    return Conversations(limits, MemoryAccount(limits))


def channel(number: int) -> Channel:
    return Channel("public", "demo", f"ses_{number}")


def known(conversations: Conversations, among: int) -> list[int]:
    return [number for number in range(among) if conversations.get(channel(number)) is not None]


def test_a_conversation_is_begun_once() -> None:
    conversations = conversations_within(Limits())
    assert conversations.get(channel(1)) is None
    assert (
        conversations.open(channel(1), 0.0)
        is conversations.open(channel(1), 5.0)
        is conversations.get(channel(1))
    )


def test_sessions_of_the_same_name_with_other_agents_or_tenants_are_others() -> None:
    conversations = conversations_within(Limits())
    one = conversations.open(Channel("a", "x", "s"), 0.0)
    assert conversations.open(Channel("b", "x", "s"), 0.0) is not one
    assert conversations.open(Channel("a", "y", "s"), 0.0) is not one


def test_when_there_is_no_room_the_one_idle_longest_is_forgotten() -> None:
    conversations = conversations_within(Limits(sessions_per_node=3))
    for number in (0, 1, 2):
        conversations.open(channel(number), 0.0)
    conversations.open(channel(0), 1.0)
    conversations.open(channel(3), 2.0)
    assert known(conversations, 4) == [0, 2, 3]


def test_a_busy_one_is_not_forgotten_and_when_all_are_busy_a_new_one_is_refused() -> None:
    conversations = conversations_within(Limits(sessions_per_node=2))
    for number in (0, 1):
        conversations.open(channel(number), 0.0).accept("m1", "rsp", "hi", 0.0)
    with pytest.raises(RateLimited) as refusal:
        conversations.open(channel(2), 1.0)
    assert refusal.value.code == "sessions_full"
    assert conversations.open(channel(0), 1.0).in_flight == 1
    conversations.open(channel(1), 1.0).response_ended("m1", (), 2.0)
    conversations.open(channel(2), 3.0)
    assert known(conversations, 3) == [0, 2]


def test_what_was_idle_for_as_long_as_a_token_lives_is_swept() -> None:
    conversations = conversations_within(Limits(session_token_ttl_seconds=100))
    conversations.open(channel(0), 0.0)
    conversations.open(channel(1), 50.0)
    conversations.sweep(99.9)
    assert known(conversations, 2) == [0, 1]
    conversations.sweep(100.0)
    assert known(conversations, 2) == [1]
    conversations.sweep(150.0)
    assert known(conversations, 2) == []


def test_a_busy_one_is_not_swept_and_does_not_keep_the_others_for_ever() -> None:
    conversations = conversations_within(Limits(session_token_ttl_seconds=100))
    conversations.open(channel(0), 0.0).accept("m1", "rsp", "hi", 0.0)
    for number in range(1, 5):
        conversations.open(channel(number), 0.0)
    for second in range(200, 210):
        conversations.sweep(float(second))
    assert known(conversations, 5) == [0]


def test_what_a_request_brings_is_not_kept_for_the_next_one_and_what_a_session_says_is() -> None:
    conversations = conversations_within(Limits())
    for number, kept, kind in (
        (1, ["one?", "one.", "two?"], CHAT),
        (2, ["two?"], KEYED_COMPLETION),
    ):
        conversation = conversations.open(channel(number), 0.0, kind)
        assert conversation.accept("m1", "rsp_1", "one?", 0.0) == (Turn("user", "one?"),)
        conversation.response_ended("m1", (b"one.",), 0.0)
        assert [turn.text for turn in conversation.accept("m2", "rsp_2", "two?", 0.0)] == kept
        assert conversation.known_response("m1") == "rsp_1"
