from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.token_sources.json_lines_decoder import JsonLinesDecoder
from fargate_handler.token_sources.openai_answer import DONE, OpenAIAnswer
from fargate_handler.token_sources.port import ModelFinish
from fargate_handler.token_sources.sse_decoder import SseDecoder
from stream_core.errors import UpstreamFailed
from stream_core.messages import Usage
from tests.integration.aws_models.events import chat_chunk, chat_usage, json_lines, sse
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink

TEXTS = st.lists(st.text(min_size=1, max_size=5), max_size=8)


@given(TEXTS, st.lists(st.integers(0, 100_000), max_size=20), st.booleans())
def test_an_answer_split_at_any_byte_is_the_same(texts: list[str], cuts: list[int], lines: bool) -> None:
    chunks = [*map(chat_chunk, texts), chat_chunk(finish_reason="stop"), chat_usage(3, 4), "[DONE]"]
    whole = json_lines(*chunks) if lines else sse(*chunks)
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    sink = RecordingSink()
    answer, decoder = OpenAIAnswer(sink), JsonLinesDecoder() if lines else SseDecoder()
    for start, end in itertools.pairwise(edges):
        for data in decoder.feed(whole[start:end]):
            if data != DONE:
                answer.take(data)
    assert sink.tokens == texts
    assert answer.finish() == ModelFinish("stop", Usage(prompt_tokens=3, completion_tokens=4))


def test_length_is_length_and_an_answer_without_reason_broke_off() -> None:
    answer = OpenAIAnswer(RecordingSink())
    answer.take(chat_chunk("x").encode())
    with pytest.raises(UpstreamFailed):
        answer.finish()
    answer.take(chat_chunk(finish_reason="length").encode())
    assert answer.finish() == ModelFinish("length", None)


@pytest.mark.parametrize(
    "data",
    [b"{", b"7", b"[1]", b'{"choices": 7}', b'{"choices": [{"delta": {"content": 7}}]}', b'{"error": "out of it"}'],
)
def test_what_is_no_chunk_fails(data: bytes) -> None:
    sink = RecordingSink()
    with pytest.raises(UpstreamFailed):
        OpenAIAnswer(sink).take(data)
    assert sink.tokens == []


def test_what_the_sink_raises_passes_through() -> None:
    with pytest.raises(Full):
        OpenAIAnswer(RecordingSink(refuses_after=0)).take(chat_chunk("x").encode())
