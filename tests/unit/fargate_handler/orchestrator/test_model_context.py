from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator.model_context import (
    is_too_long,
    prompt_tokens,
    stated_context,
    without_oldest,
)
from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.session.token_estimate import estimated_tokens

_ADVICE = Turn("system", "You help.")


def _conversation(exchanges: int, *, answered: bool = True) -> list[Turn]:
    turns = []
    for number in range(exchanges):
        turns.append(Turn("user", f"{number}? " + "x" * 300))
        if answered:
            turns.append(Turn("assistant", f"{number}. " + "y" * 300))
    return [*turns, Turn("user", "and now?")]


def test_what_fits_is_left_as_it_is() -> None:
    turns = _conversation(3)
    assert without_oldest(turns, 10_000) == (tuple(turns), 0)


def test_the_oldest_exchanges_go_and_the_instructions_stay() -> None:
    turns = [_ADVICE, *_conversation(5)]
    kept, left_out = without_oldest(turns, 600)
    assert left_out == 3
    assert kept == (_ADVICE, *turns[7:])
    assert estimated_tokens(kept) <= 600


def test_the_last_exchange_and_the_message_stay_however_long_they_are() -> None:
    turns = [_ADVICE, *_conversation(5)]
    assert without_oldest(turns, 1) == ((_ADVICE, *turns[9:]), 4)
    assert without_oldest(turns[-1:], 1) == (tuple(turns[-1:]), 0)


@given(st.integers(0, 12), st.integers(0, 4_000), st.booleans())
def test_it_begins_with_a_question_and_leaves_out_no_more_than_it_must(
    exchanges: int, most: int, answered: bool
) -> None:
    turns = _conversation(exchanges, answered=answered)
    kept, left_out = without_oldest(turns, most)
    assert kept == tuple(turns[len(turns) - len(kept) :])
    assert kept[0].role == "user"
    assert sum(turn.role == "user" for turn in kept) == exchanges + 1 - left_out
    if left_out:
        before = turns[len(turns) - len(kept) - (2 if answered else 1) :]
        assert estimated_tokens(before) > most


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ("This model's maximum context length is 8192 tokens. You sent 9000.", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("the context window is exceeded", None),
    ],
)
def test_a_refusal_may_state_the_models_context(said: str, stated: int | None) -> None:
    refused = refusal(said, status=400)
    assert is_too_long(refused)
    assert stated_context(refused) == stated


def test_a_refusal_for_another_reason_is_none_for_length() -> None:
    assert not is_too_long(refusal("no", status=400, code="content_policy_violation"))


@pytest.mark.parametrize(
    ("context", "longest", "prompt"),
    [
        (128_000, None, 123_904),
        (128_000, 800, 127_200),
        (4_096, None, 2_048),
        (4_096, 10**6, 2_048),
    ],
)
def test_a_part_of_the_context_stays_free_for_the_answer(
    context: int, longest: int | None, prompt: int
) -> None:
    assert prompt_tokens(context, longest) == prompt
