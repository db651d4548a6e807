"""The one estimate of a request's tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.session.conversation import ToolCall, Turn
from evenflow.stream_core.session.token_estimate import (
    estimated_tokens,
    most_media_tokens,
    most_tokens,
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


@given(st.text())
def test_a_request_has_no_more_tokens_than_bytes_and_those_of_its_template(text: str) -> None:
    most = most_tokens(estimated_tokens([Turn("user", text)]), 0, 1)
    assert len(text.encode()) + 256 <= most <= len(text.encode()) + 256 + 3 * (TURN + 1)


@pytest.mark.parametrize(
    ("part", "most"),
    [
        ({"type": "text", "text": "abc"}, 0),
        ({"type": "image_url", "image_url": {"url": "data:,abc", "detail": "high"}}, 50_013),
        ({"type": "file", "file": {"file_data": "a" * 90_000, "pages": 7}}, 140_000),
        ({"type": "input_audio"}, 50_000),
    ],
)
def test_a_medium_has_no_more_tokens_than_its_data_and_a_large_image_s(
    part: dict[str, object], most: int
) -> None:
    assert most_media_tokens([Turn("user", "", parts=(part, part))]) == 2 * most
