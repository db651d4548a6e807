from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.answer_body import AnswerBody
from evenflow.fargate_handler.token_sources.openai_answer import NO_CHUNKS, OpenAIAnswer, TextChunks
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.stream_core.base.errors import UpstreamFailed
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


def _chunk(content: object, *, choice: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": {"content": content}, "finish_reason": None} | (choice or {})]
    return {"id": "c", "object": "chat.completion.chunk", "choices": choices} | more


def _knowing(chunk: dict[str, Any]) -> TextChunks:
    known = TextChunks()
    known.learn(orjson.dumps(chunk), chunk)
    return known


def _read_twice(first: bytes, second: bytes) -> list[str]:
    """What an answer gives that knows the first chunk when the second comes."""
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    answer.take(first)
    answer.take(second)
    return sink.tokens


def test_a_chunk_that_differs_in_its_text_alone_is_not_parsed() -> None:
    known = _knowing(_chunk("one"))
    for text in ("two", "grüße ☀", '"', "\n", "\\", '","x":"', "\u2028", "\x7f"):
        assert known.similar.text(orjson.dumps(_chunk(text))) == text


@pytest.mark.parametrize(
    "other",
    [
        _chunk("two", choice={"finish_reason": "stop"}),
        _chunk("two", choice={"index": 1}),
        _chunk("two", usage={"prompt_tokens": 1}),
        _chunk("two", error={"message": "no"}),
        _chunk(""),
        _chunk(None),
        {},
    ],
)
def test_any_other_chunk_is_parsed(other: dict[str, Any]) -> None:
    assert _knowing(_chunk("one")).similar.text(orjson.dumps(other)) == ""


@pytest.mark.parametrize(
    "more",
    [
        {"choice": {"finish_reason": "stop"}},
        {"choice": {"index": 1}},
        {"choice": {"logprobs": {"content": []}}},
        {"choice": {"delta": {"content": "one", "reasoning": "so"}}},
        {"choice": {"delta": {"content": "one", "tool_calls": [{}]}}},
        {"choice": {"delta": {"content": "one", "annotations": [{}]}}},
        {"choice": {"delta": {"content": "one", "role": "tool"}}},
        {"event": {"type": "status", "data": "one"}},
        {"usage": {"prompt_tokens": 1}},
        {"error": {"message": "no"}},
        {"system_fingerprint": "one"},  # which of the two is the text?
    ],
)
def test_a_chunk_that_says_more_is_not_known(more: dict[str, Any]) -> None:
    chunk = _chunk("one", **more)
    assert _knowing(chunk).similar.text(orjson.dumps(chunk)) == ""


def test_a_chunk_that_is_too_short_for_its_text_is_parsed() -> None:
    known = _knowing(_chunk("one"))
    whole = orjson.dumps(_chunk("one"))
    begin = whole.index(b"one")
    for shorter in (whole[:begin] + whole[begin + 4 :], whole[:begin], whole[begin + 3 :], b""):
        assert known.similar.text(shorter) == ""
    assert NO_CHUNKS.text(b"\0") == NO_CHUNKS.text(b"\0\0") == NO_CHUNKS.text(b"") == ""


def test_the_place_of_the_text_is_not_taken_for_another() -> None:
    before = b'{"content":"one","choices":[{"delta":{"content":"\\u006fne"}}]}'
    after = b'{"content":"two","choices":[{"delta":{"content":"\\u006fne"}}]}'
    assert _read_twice(before, after) == ["one", "one"]


def test_a_control_character_in_a_string_is_no_json() -> None:
    first = orjson.dumps(_chunk("one"))
    with pytest.raises(UpstreamFailed):
        _read_twice(first, first.replace(b"one", b"\x1e{}"))


def test_bytes_that_are_no_text_stand_for_a_character() -> None:
    first = orjson.dumps(_chunk("one"))
    assert _read_twice(first, first.replace(b"one", b"\xff")) == ["one", "\ufffd"]


def test_a_server_whose_chunks_all_differ_is_not_tried_for_ever() -> None:
    known = TextChunks()
    for number in range(100):
        chunk = _chunk("one", obfuscation=str(number))
        known.learn(orjson.dumps(chunk), chunk)
    assert known.similar.text(orjson.dumps(chunk)) == ""


def test_a_server_whose_events_all_differ_is_not_tried_for_ever() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    body = AnswerBody(answer, sink)
    for number in range(100):
        data = orjson.dumps(_chunk("one", obfuscation=str(number)))
        assert body.take(b"data: %b\n\n" % data)
    assert answer.similar_chunks.text(data) == ""
    assert sink.tokens == ["one"] * 100


_CONTENTS = st.text(max_size=6) | st.sampled_from(['"', "\\", "\n", "content", '":"', "\x1e"])


@given(
    st.lists(
        st.tuples(_CONTENTS, st.sampled_from(["", "a", "b"]), st.booleans(), st.booleans()),
        max_size=12,
    ),
)
def test_what_is_known_never_changes_what_is_read(
    chunks: list[tuple[str, str, bool, bool]],
) -> None:
    answer_sink, parsed_sink = RecordingSink(), RecordingSink()
    answer = OpenAIAnswer(answer_sink, Failures())
    parsed = OpenAIAnswer(parsed_sink, Failures())
    for content, elsewhere, spaced, escaped in chunks:
        separators = (", ", ": ") if spaced else (",", ":")
        written = json.dumps(
            _chunk(content) | {"content": elsewhere}, ensure_ascii=escaped, separators=separators
        )
        data = written.encode("utf-8", "replace")
        answer.take(data)
        # The same, in a form that nothing else has: it is parsed.
        parsed.take(orjson.dumps(orjson.loads(data) | {"": len(parsed_sink.tokens)}))
    assert answer_sink.tokens == parsed_sink.tokens
    assert answer_sink.signs_of_life == parsed_sink.signs_of_life
