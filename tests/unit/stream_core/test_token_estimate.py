"""The one estimate of a request's tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.log.conversation import ToolCall, Turn
from evenflow.stream_core.policy.token_estimate import (
    estimated_tokens,
    tokens_of,
    tokens_of_text_turn,
)

TURN = 8


@pytest.mark.parametrize(
    ("turn", "tokens"),
    [
        (Turn("user", ""), TURN),
        (Turn("user", "abcd"), TURN + 2),
        (Turn("user", "日本"), TURN + 2),
        (Turn("user", "😀"), TURN + 2),
        (Turn("assistant", "", (ToolCall("c", "find", '{"é":1}'),)), TURN + 4),
        (Turn("assistant", "", extra={"reasoning_content": "abc"}), TURN + 9),
        (Turn("user", "abc", parts=({"type": "text", "text": "abc"},)), TURN + 1),
        (Turn("user", "", parts=({"type": "image_url", "image_url": {}},) * 2), TURN + 3_200),
        (Turn("assistant", "", parts=({"type": "refusal", "refusal": "abc"},)), TURN + 12),
    ],
)
def test_what_a_turn_is_estimated_at(turn: Turn, tokens: int) -> None:
    assert estimated_tokens([turn]) == tokens


def test_what_the_model_reads_besides_counts_as_its_json() -> None:
    tool = {"name": "日"}
    assert estimated_tokens([], [tool, tool]) == 2 * tokens_of(len('{"name":"日"}'.encode()))


@given(st.text())
def test_a_turn_of_text_alone_is_estimated_by_its_bytes(text: str) -> None:
    assert estimated_tokens([Turn("user", text)]) == tokens_of_text_turn(len(text.encode()))
