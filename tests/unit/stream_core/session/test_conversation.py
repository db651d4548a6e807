from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import Conflict, InvalidRequest, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.session.conversation import Conversation, Turn
from evenflow.stream_core.stores.session_store import LedgerEntry, StoredConversation
from tests.unit.stream_core.stores.conversation_model import version_of


def say(
    conversation: Conversation, message_id: str, text: str = "hi", now: float = 0.0
) -> tuple[Turn, ...]:
    conversation.check_rate(now)
    conversation.check(message_id, conversation.last_message_id)
    conversation.check_in_flight()
    return conversation.accept(message_id, f"rsp_{message_id}", text, now)


def exchange(
    conversation: Conversation, message_id: str, text: str, answer: str, now: float = 0.0
) -> tuple[Turn, ...]:
    turns = say(conversation, message_id, text, now)
    conversation.response_ended(message_id, (answer.encode(),) if answer else (), now)
    return turns


# -- causality -------------------------------------------------------------------------------------


def test_the_first_message_follows_nothing() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    with pytest.raises(Conflict) as refusal:
        conversation.check("m1", "m0")
    assert refusal.value.to_object()["expected"] is None
    assert refusal.value.code == "causal_violation"
    assert refusal.value.param == "previous_message_id"
    conversation.check("m1", None)


def test_a_message_follows_the_last_accepted_one_whether_or_not_that_was_answered() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    say(conversation, "m1")
    for wrong in (None, "m0", "m2"):
        with pytest.raises(Conflict) as refusal:
            conversation.check("m2", wrong)
        assert refusal.value.to_object()["expected"] == "m1"
    conversation.check("m2", "m1")


def test_a_refused_message_changes_nothing() -> None:
    conversation = Conversation(Limits(messages_in_flight_per_session=1), 0.0, MemoryPart(2**40))
    say(conversation, "m1")
    with pytest.raises(Conflict):
        conversation.check("m2", None)
    with pytest.raises(RateLimited):
        conversation.check_in_flight()
    assert conversation.last_message_id == "m1"
    assert conversation.known_response("m2") is None
    assert conversation.in_flight == 1


@given(st.lists(st.integers(0, 5), max_size=40))
def test_whatever_clients_send_the_accepted_messages_form_one_line(previous: list[int]) -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    accepted: list[str] = []
    for number, named in enumerate(previous):
        message_id, names = f"m{number}", accepted[-named] if 0 < named <= len(accepted) else None
        expected = accepted[-1] if accepted else None
        if names != expected:
            with pytest.raises(Conflict) as refusal:
                conversation.check(message_id, names)
            assert refusal.value.extra["expected"] == expected
            continue
        conversation.check(message_id, names)
        conversation.accept(message_id, f"rsp_{number}", "x", float(number))
        conversation.response_ended(message_id, (b"y",), float(number))
        accepted.append(message_id)


def test_the_model_is_given_so_many_messages_however_short_they_are() -> None:
    conversation = Conversation(Limits(messages_per_request=16), 0.0, MemoryPart(2**40))
    for number in range(30):
        turns = exchange(conversation, f"m{number}", "a", "b", now=float(number))
    assert len(turns) == 15
    assert turns[-1] == Turn("user", "a")
    assert len(conversation.history_sizes(1)) == 16


# -- idempotency -----------------------------------------------------------------------------------


def test_an_accepted_message_is_known_by_its_response() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "hi", "hello")
    say(conversation, "m2")
    assert conversation.known_response("m1") == "rsp_m1"
    assert conversation.known_response("m2") == "rsp_m2"
    assert conversation.known_response("m3") is None


def test_only_the_newest_messages_are_remembered_and_a_forgotten_one_cannot_be_repeated() -> None:
    conversation = Conversation(Limits(messages_remembered_per_session=8), 0.0, MemoryPart(2**40))
    for number in range(20):
        exchange(conversation, f"m{number}", "hi", "hello", now=float(number))
    assert [conversation.known_response(f"m{n}") is not None for n in range(20)] == [False] * 12 + [
        True
    ] * 8
    with pytest.raises(Conflict):
        conversation.check("m0", None)


# -- limits ----------------------------------------------------------------------------------------


def test_so_many_messages_may_be_in_flight_and_no_more() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    for number in range(4):
        say(conversation, f"m{number}")
    with pytest.raises(RateLimited) as refusal:
        conversation.check_in_flight()
    assert refusal.value.code == "session_in_flight"
    assert refusal.value.retry_after_ms
    conversation.response_ended("m0", (b"done",), 10.0)
    conversation.check_in_flight()


def test_messages_that_come_too_fast_are_told_when_to_come_again() -> None:
    conversation = Conversation(Limits(messages_per_second=2), 0.0, MemoryPart(2**40))
    for number in range(4):
        exchange(conversation, f"m{number}", "hi", "hello")
    with pytest.raises(RateLimited) as refusal:
        conversation.check_rate(0.0)
    assert refusal.value.code == "rate_limited"
    wait = refusal.value.retry_after_ms
    assert wait is not None
    assert 0 < wait <= 501
    conversation.check_rate(wait / 1000)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.49, 0.5, 1.0, 20.0])
def test_at_every_allowed_rate_a_message_comes_through(rate: float) -> None:
    say(Conversation(Limits(messages_per_second=rate), 0.0, MemoryPart(2**40)), "m1")


# -- history ---------------------------------------------------------------------------------------


def test_the_model_sees_what_was_said_and_answered_and_last_the_new_message() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "one.")
    assert say(conversation, "m2", "two?") == (
        Turn("user", "one?"),
        Turn("assistant", "one."),
        Turn("user", "two?"),
    )


def test_an_answer_that_did_not_come_leaves_no_turn() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "")
    assert say(conversation, "m2", "two?") == (Turn("user", "one?"), Turn("user", "two?"))


def test_an_answer_stands_behind_its_question_whenever_it_came() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    say(conversation, "m1", "one?")
    say(conversation, "m2", "two?")
    conversation.response_ended("m2", (b"two.",), 1.0)
    conversation.response_ended("m1", (b"one.",), 2.0)
    said = say(conversation, "m3", "three?")
    assert [turn.text for turn in said] == ["one?", "one.", "two?", "two.", "three?"]


def test_another_try_takes_the_place_of_the_message_before_it_and_of_its_answer() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "one.")
    exchange(conversation, "m2", "two?", "half of")
    conversation.check("m3", "m2", "m2")
    seen = conversation.accept("m3", "rsp_m3", "two?", 1.0, "m2")
    assert [turn.text for turn in seen] == ["one?", "one.", "two?"]
    conversation.response_ended("m3", (b"two.",), 2.0)
    assert [turn.text for turn in say(conversation, "m4", "three?")] == [
        "one?",
        "one.",
        "two?",
        "two.",
        "three?",
    ]
    assert conversation.known_response("m2") == "rsp_m2", "its answer can still be read"


def test_what_was_replaced_takes_no_room_in_the_history() -> None:
    conversation = Conversation(Limits(history_bytes=20), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "one.")
    exchange(conversation, "m2", "two?", "two.")
    conversation.accept("m3", "rsp_m3", "two!", 1.0, "m2")
    conversation.response_ended("m3", (b"two.",), 2.0)
    assert [turn.text for turn in say(conversation, "m4", "end?")] == [
        "one?",
        "one.",
        "two!",
        "two.",
        "end?",
    ]


def test_a_message_replaces_the_conversation_from_another_one_on() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    for number in (1, 2, 3):
        exchange(conversation, f"m{number}", f"{number}?", f"{number}.")
    conversation.check("m4", "m3", "m2")
    turns = conversation.accept("m4", "rsp_m4", "two!", 0.0, replaces="m2")
    assert [turn.text for turn in turns] == ["1?", "1.", "two!"]
    assert conversation.left_out(turns) == 0
    assert conversation.known_response("m3") == "rsp_m3"


@pytest.mark.parametrize("replaces", ["m2", "m3", "m9"])
def test_what_is_not_in_the_conversation_can_not_be_replaced(replaces: str) -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    for message_id in ("m1", "m2", "m3"):
        exchange(conversation, message_id, "?", ".")
    conversation.accept("m4", "rsp_m4", "two!", 0.0, replaces="m2")
    with pytest.raises(InvalidRequest) as refusal:
        conversation.check("m5", "m4", replaces)
    assert (refusal.value.code, refusal.value.param) == ("invalid_request", "replaces")


def test_the_last_exchange_is_told_however_long_it_is() -> None:
    conversation = Conversation(Limits(history_bytes=32_768), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "one.")
    exchange(conversation, "m2", "two?", long_answer := "word " * 20_000)
    turns = say(conversation, "m3", "three?")
    assert [turn.text for turn in turns] == ["two?", long_answer, "three?"]
    assert conversation.left_out(turns) == 1


def test_it_says_how_many_messages_the_model_is_not_told() -> None:
    conversation = Conversation(Limits(history_bytes=10), 0.0, MemoryPart(2**40))
    for number in (1, 2, 3):
        exchange(conversation, f"m{number}", f"{number}?", f"{number}.")
    turns = say(conversation, "m4", "four?")
    assert [turn.text for turn in turns] == ["3?", "3.", "four?"]
    assert conversation.left_out(turns) == 2
    turns = conversation.accept("m5", "rsp_m5", "two!", 0.0, replaces="m2")
    assert conversation.left_out(turns) == 1


# -- what other tasks accepted ---------------------------------------------------------------------


def entry(
    message_id: str, previous: str | None, answer: str | None, *, ended: bool = True
) -> LedgerEntry:
    return LedgerEntry(
        message_id, previous, f"{message_id}?", f"rsp_{message_id}", "task", answer, ended
    )


def test_it_catches_up_with_what_was_accepted_elsewhere() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(
        StoredConversation("m2", [entry("m1", None, "m1."), entry("m2", "m1", None)]), "this task"
    )
    assert conversation.known_response("m1") == "rsp_m1"
    assert not conversation.is_stale
    assert [turn.text for turn in say(conversation, "m3", "m3?")] == ["m1?", "m1.", "m2?", "m3?"]


def test_while_an_answer_is_outstanding_it_knows_that_it_must_look_again() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(
        StoredConversation("m1", [entry("m1", None, None, ended=False)]), "this task"
    )
    assert conversation.is_stale
    conversation.catch_up(StoredConversation("m1", [entry("m1", None, None, ended=False)]), "task")
    assert not conversation.is_stale
    conversation.catch_up(StoredConversation("m1", [entry("m1", None, "m1.")]), "this task")
    assert not conversation.is_stale
    assert [turn.text for turn in say(conversation, "m2", "m2?")] == ["m1?", "m1.", "m2?"]


def test_an_answer_of_this_task_is_not_forgotten_because_the_store_does_not_have_it_yet() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "m1?", "m1.")
    conversation.catch_up(
        StoredConversation("m1", [entry("m1", None, None, ended=False)]), "this task"
    )
    assert [turn.text for turn in say(conversation, "m2", "m2?")] == ["m1?", "m1.", "m2?"]


def test_what_was_replaced_elsewhere_is_not_seen_here() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    again = replace(entry("m2", "m1", "new."), replaces="m1")
    conversation.catch_up(StoredConversation("m2", [entry("m1", None, "old."), again]), "this task")
    assert [turn.text for turn in say(conversation, "m3", "m3?")] == ["m2?", "new.", "m3?"]
    assert conversation.known_response("m1") == "rsp_m1"


def edited() -> StoredConversation:
    """One, two; then one was edited, and that version has a second message, too."""
    ledger = [
        entry("m1", None, "1."),
        entry("m2", "m1", "2."),
        replace(entry("m3", "m2", "3."), replaces="m1"),
        entry("m4", "m3", None, ended=False),
    ]
    return StoredConversation("m4", ledger)


def test_an_older_version_is_read_from_the_ledger_and_gone_on_with() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task")
    assert [conversation.is_in_version(f"m{n}") for n in range(1, 5)] == [False, False, True, True]
    with pytest.raises(InvalidRequest) as refusal:
        conversation.check("m5", "m4", parent_message_id="m2")
    assert refusal.value.param == "parent_message_id"
    conversation.catch_up(edited(), "task", "m2")
    conversation.check("m5", "m4", parent_message_id="m2")
    turns = conversation.accept("m5", "rsp_m5", "m5?", 0.0)
    assert [turn.text for turn in turns] == ["m1?", "1.", "m2?", "2.", "m5?"]
    assert conversation.left_out(turns) == 0
    turns = say(conversation, "m6", "m6?")
    assert [turn.text for turn in turns][-3:] == ["2.", "m5?", "m6?"]


def test_a_question_of_an_older_version_is_edited() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task", "m2")
    conversation.check("m5", "m4", "m2")
    turns = conversation.accept("m5", "rsp_m5", "two!", 0.0, "m2")
    assert [turn.text for turn in turns] == ["m1?", "1.", "two!"]
    assert not conversation.is_in_version("m2")


def test_a_stale_client_is_refused_whichever_version_it_goes_on_with() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task", "m2")
    for replaces, parent in ((None, "m2"), ("m1", None), (None, None)):
        with pytest.raises(Conflict) as refusal:
            conversation.check("m5", "m2", replaces, parent)
        assert refusal.value.to_object()["expected"] == "m4"


@pytest.mark.parametrize(("replaces", "parent"), [(None, "m1"), ("m2", "m2"), (None, "unknown")])
def test_only_the_last_message_of_a_version_is_gone_on_with(
    replaces: str | None, parent: str
) -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task", "m2")
    with pytest.raises(InvalidRequest) as refusal:
        conversation.check("m5", "m4", replaces, parent)
    assert refusal.value.param == "parent_message_id"


def test_a_message_of_another_version_is_answered_late_with_its_own_history() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task", "m2")
    turns = conversation.begin_accepted("m4", "m4?", edited())
    assert [turn.text for turn in turns] == ["m3?", "3.", "m4?"]
    assert conversation.is_in_version("m2"), "what the next message goes on with stays"
    turns = conversation.begin_accepted("m2", "m2?", edited())
    assert [turn.text for turn in turns] == ["m1?", "1.", "m2?"]


def test_versions_count_as_messages_that_are_remembered() -> None:
    limits = Limits(messages_remembered_per_session=8, messages_per_second=1000)
    conversation = Conversation(limits, 0.0, MemoryPart(2**40))
    for number in range(9):
        exchange(conversation, f"m{number}", "?", ".")
    assert not conversation.is_in_version("m0")


def test_after_a_refused_edit_the_whole_version_is_read_again() -> None:
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40))
    conversation.catch_up(edited(), "task", "m1", "m1")
    conversation.check("m5", "m4", "m1")
    assert conversation.needs_ledger("m2"), "it has only what was before the first message"
    conversation.catch_up(edited(), "task", "m2")
    assert not conversation.needs_ledger("m2")


def test_of_a_conversation_that_grows_shorter_the_model_is_told_what_fits() -> None:
    conversation = Conversation(Limits(history_bytes=14), 0.0, MemoryPart(2**40))
    ledger = [entry("m1", None, "1."), entry("m2", "m1", "2."), entry("m3", "m2", "3.")]
    stored = StoredConversation("m3", ledger)
    conversation.catch_up(stored, "task")
    assert (conversation.needs_ledger("m3"), conversation.needs_ledger("m2", "m2")) == (False, True)
    conversation.catch_up(stored, "task", "m2", "m2")
    sizes = conversation.history_sizes(4, "m2")
    turns = conversation.accept("m4", "rsp_m4", "two!", 0.0, "m2")
    assert [turn.text for turn in turns] == ["m1?", "1.", "two!"]
    assert sorted(sizes) == [2, 3]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(20, 60))
def test_a_task_that_reads_the_ledger_knows_the_same_conversation(
    replaced: list[int], most: int
) -> None:
    limits = Limits(history_bytes=most, messages_per_second=1000)
    conversation = Conversation(limits, 0.0, MemoryPart(2**40))
    ledger: list[LedgerEntry] = []
    for number, named in enumerate(replaced):
        message_id, previous = f"m{number}", conversation.last_message_id
        stand = version_of(ledger)
        replaces = stand[named] if named < len(stand) else None
        if conversation.needs_ledger(replaces or previous, replaces):
            stored = StoredConversation(previous, ledger)
            conversation.catch_up(stored, "task", replaces, replaces)
        conversation.check(message_id, previous, replaces)
        conversation.accept(message_id, f"rsp_{message_id}", f"{message_id}?", 0.0, replaces)
        conversation.response_ended(message_id, (b"answer",), 0.0)
        ledger.append(replace(entry(message_id, previous, "answer"), replaces=replaces))
    elsewhere = Conversation(limits, 0.0, MemoryPart(2**40))
    elsewhere.catch_up(StoredConversation(ledger[-1].message_id, ledger), "this task")
    here, there = (say(each, "next", "next?") for each in (conversation, elsewhere))
    assert here == there
    assert conversation.left_out(here) == elsewhere.left_out(there)


TEXTS = st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=20)


@given(TEXTS, st.integers(0, 100))
def test_the_history_is_the_newest_turns_that_fit_and_always_ends_with_the_message(
    texts: list[tuple[str, str]], most: int
) -> None:
    conversation = Conversation(
        Limits(history_bytes=most, messages_per_second=1000), 0.0, MemoryPart(2**40)
    )
    everything: list[Turn] = []
    for number, (question, answer) in enumerate(texts):
        everything.append(Turn("user", question))
        seen = exchange(conversation, f"m{number}", question, answer)
        assert seen[-1] == Turn("user", question)
        assert list(seen) == everything[-len(seen) :]
        size = sum(len(turn.text.encode()) for turn in seen)
        questions = sum(turn.role == "user" for turn in seen)
        assert size <= most or questions == (2 if number and most else 1)
        if answer:
            everything.append(Turn("assistant", answer))


@example([("", ""), ("", "")], 0, None)
@given(TEXTS, st.integers(0, 100), st.none() | st.integers(0, 20))
def test_before_a_message_is_accepted_it_is_known_how_long_its_history_will_be(
    texts: list[tuple[str, str]], most: int, replaced: int | None
) -> None:
    limits = Limits(history_bytes=most, messages_per_second=1000)
    conversation = Conversation(limits, 0.0, MemoryPart(2**40))
    for number, (question, answer) in enumerate(texts[1:]):
        exchange(conversation, f"m{number}", question, answer)
    text, replaces = texts[0][0], None if replaced is None else f"m{replaced}"
    if replaces is not None and conversation.known_response(replaces) is None:
        replaces = None
    # Otherwise the ledger is read before.
    assume(replaces is None or not conversation.needs_ledger(None, replaces))
    sizes = conversation.history_sizes(len(text.encode()), replaces)
    turns = conversation.accept("next", "rsp_next", text, 0.0, replaces)
    assert sorted(sizes) == sorted(len(turn.text.encode()) for turn in turns[:-1])


@given(TEXTS, st.integers(0, 100))
def test_a_shortened_history_begins_with_the_user(texts: list[tuple[str, str]], most: int) -> None:
    """Models refuse a conversation that begins with their own answer."""
    conversation = Conversation(
        Limits(history_bytes=most, messages_per_second=1000), 0.0, MemoryPart(2**40)
    )
    for number, (question, answer) in enumerate(texts):
        assert exchange(conversation, f"m{number}", question, answer)[0].role == "user"


def test_with_no_history_the_model_sees_only_the_message() -> None:
    conversation = Conversation(Limits(history_bytes=0), 0.0, MemoryPart(2**40))
    exchange(conversation, "m1", "one?", "one.")
    assert say(conversation, "m2", "two?") == (Turn("user", "two?"),)


def test_without_a_history_it_keeps_none_of_what_the_store_has_and_begins_what_it_is_given() -> (
    None
):
    conversation = Conversation(Limits(), 0.0, MemoryPart(2**40), keeps_history=False)
    stored = StoredConversation("m1", [entry("m1", None, None, ended=False)])
    conversation.catch_up(stored, "this task")
    assert conversation.known_response("m1") == "rsp_m1"
    assert conversation.begin_accepted("m1", "m1?", stored) == (Turn("user", "m1?"),)
    conversation.response_ended("m1", (b"m1.",), 1.0)
    assert (conversation.in_flight, say(conversation, "m2", "m2?")) == (0, (Turn("user", "m2?"),))


def test_it_is_used_when_something_is_accepted_and_when_something_ends() -> None:
    conversation = Conversation(Limits(), 5.0, MemoryPart(2**40))
    assert conversation.used_at == 5.0
    say(conversation, "m1", now=7.0)
    assert conversation.used_at == 7.0
    conversation.response_ended("m1", (b"x",), 9.0)
    assert (conversation.used_at, conversation.in_flight) == (9.0, 0)


# -- memory ----------------------------------------------------------------------------------------


def test_what_it_takes_is_counted_and_is_what_it_takes() -> None:
    memory = MemoryPart(2**40)
    text = "\N{GRINNING FACE}" + "x" * 10_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        conversations = [Conversation(Limits(), 0.0, memory) for _ in range(20)]
        for conversation in conversations:
            for number in range(3):
                exchange(conversation, f"m{number}", text[:-1] + "y", "")
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.9 * grown < memory.bytes < 1.3 * grown
    assert memory.bytes < 20 * (3 * 10_600 + 3_000), "as UTF-8"


def test_what_is_forgotten_or_replaced_is_counted_no_more() -> None:
    memory = MemoryPart(2**40)
    conversation = Conversation(Limits(), 0.0, memory)
    empty = memory.bytes
    exchange(conversation, "m1", "x" * 1_000, "y" * 1_000)
    one = memory.bytes
    assert 2_000 < one - empty < 3_000
    conversation.accept("m2", "rsp", "x" * 1_000, 0.0, "m1")
    assert memory.bytes < one
    conversation.release_memory()
    assert memory.bytes == 0
