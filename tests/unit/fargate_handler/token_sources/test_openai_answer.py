from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.token_sources.openai_answer import DONE, OpenAIAnswer
from fargate_handler.token_sources.openai_failures import Failures
from fargate_handler.token_sources.port import ModelFinish
from fargate_handler.token_sources.stream_decoders import JsonLinesDecoder, SseDecoder
from stream_core.log.marked_text import AnswerPart, CallPart
from stream_core.log.marked_text_reader import MarkedTextReader
from stream_core.protocol.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
)
from stream_core.protocol.messages import Usage
from tests.integration.aws_models.events import chat_chunk, chat_usage, json_lines, sse
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink

TEXTS = st.lists(st.text(min_size=1, max_size=5), max_size=8)


@given(TEXTS, st.lists(st.integers(0, 100_000), max_size=20), st.booleans())
def test_an_answer_split_at_any_byte_is_the_same(
    texts: list[str], cuts: list[int], lines: bool
) -> None:
    chunks = [*map(chat_chunk, texts), chat_chunk(finish_reason="stop"), chat_usage(3, 4), "[DONE]"]
    whole = json_lines(*chunks) if lines else sse(*chunks)
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    sink = RecordingSink()
    answer, decoder = OpenAIAnswer(sink, Failures()), JsonLinesDecoder() if lines else SseDecoder()
    for start, end in itertools.pairwise(edges):
        for data in decoder.feed(whole[start:end]):
            if data != DONE:
                answer.take(data)
    assert sink.tokens == texts
    assert answer.finish() == ModelFinish("stop", Usage(prompt_tokens=3, completion_tokens=4))


def test_length_is_length_and_an_answer_without_reason_broke_off() -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk("x").encode())
    with pytest.raises(UpstreamFailed):
        answer.finish()
    answer.take(chat_chunk(finish_reason="length").encode())
    assert answer.finish() == ModelFinish("length", None)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"7",
        b"[1]",
        b'{"choices": 7}',
        b'{"choices": [{"delta": {"content": 7}}]}',
        b'{"error": "out of it"}',
    ],
)
def test_what_is_no_chunk_fails(data: bytes) -> None:
    sink = RecordingSink()
    with pytest.raises(UpstreamFailed):
        OpenAIAnswer(sink, Failures()).take(data)
    assert sink.tokens == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"message": "no", "code": "context_length_exceeded"},
            (ModelRefused, 400, "context_length_exceeded"),
        ),
        ({"message": "no", "type": "invalid_request_error"}, (ModelRefused, 400, "model_refused")),
        ({"message": "no", "code": 413}, (ModelRefused, 413, "model_refused")),
        ({"message": "no", "code": 429}, (UpstreamAnswered, 429, "upstream_throttled")),
        (
            {"message": "no", "type": "rate_limit_error", "code": "slow_down"},
            (UpstreamAnswered, 429, "slow_down"),
        ),
        (
            {"message": "no", "type": "rate_limit_error", "code": "db://u:secret@h"},
            (UpstreamAnswered, 429, "upstream_throttled"),
        ),
        ({"message": "secret", "code": 400}, (ModelRefused, 400, "model_refused")),
        ({"message": "secret", "code": 500}, (UpstreamFailed, 502, "upstream_failed")),
        (
            {"message": "no", "code": "insufficient_quota"},
            (UpstreamRejected, 429, "insufficient_quota"),
        ),
        ({"message": "no", "code": 503}, (UpstreamAnswered, 503, "upstream_overloaded")),
        ({"message": "no", "code": "server_error"}, (UpstreamFailed, 502, "upstream_failed")),
        ({"input": "secret"}, (UpstreamFailed, 502, "upstream_failed")),
    ],
)
def test_an_error_in_the_place_of_a_chunk_keeps_what_it_says(
    error: dict[str, Any], expected: tuple[type[EvenflowError], int, str]
) -> None:
    with pytest.raises(EvenflowError) as failed:
        OpenAIAnswer(RecordingSink(), Failures()).take(orjson.dumps({"error": error}))
    assert (type(failed.value), failed.value.status, failed.value.code) == expected
    assert "secret" not in failed.value.message


def fragment(**members: Any) -> str:
    return chat_chunk(delta={"tool_calls": [members]})


def called(*chunks: str) -> AnswerPart:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), marked=True)
    for one in chunks:
        answer.take(one.encode())
    (part,) = MarkedTextReader().read(sink.text)
    return part


_ADD = {"name": "add", "arguments": ""}


def test_fragments_of_calls_are_part_of_the_answer() -> None:
    assert called(
        chat_chunk(delta={"role": "assistant", "content": None}),
        chat_chunk("I add."),
        fragment(index=0, id="c1", type="function", function=_ADD),
        fragment(index=0, function={"arguments": '{"a"'}),
        fragment(index=0, function={"arguments": ":1}"}),
        fragment(index=1, id="c2", type="function", function={"name": "now", "arguments": "{}"}),
        chat_chunk(finish_reason="tool_calls"),
    ) == AnswerPart("I add.", (CallPart(0, '{"a":1}', "c1", "add"), CallPart(1, "{}", "c2", "now")))


def test_several_calls_in_one_chunk() -> None:
    calls = [
        {"index": place, "id": f"c{place}", "function": {"name": "f", "arguments": str(place)}}
        for place in range(3)
    ]
    assert [part.arguments for part in called(chat_chunk(delta={"tool_calls": calls})).calls] == [
        "0",
        "1",
        "2",
    ]


def test_a_server_that_repeats_name_and_id_with_each_fragment() -> None:
    parts = [
        fragment(index=0, id=f"c{n}", function={"name": "add", "arguments": str(n)})
        for n in range(3)
    ]
    assert called(*parts).calls == (CallPart(0, "012", "c0", "add"),)


def test_a_server_that_does_not_count() -> None:
    (one, two) = called(
        fragment(id="c1", function={"name": "add", "arguments": "{"}),
        fragment(function={"arguments": "}"}),
        fragment(id="c2", function={"name": "add", "arguments": "{}"}),
    ).calls
    assert (one, two) == (CallPart(0, "{}", "c1", "add"), CallPart(1, "{}", "c2", "add"))


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    (one, two) = called(
        fragment(index=0, function=_ADD), fragment(index=1, id="", function=_ADD)
    ).calls
    assert one.id.startswith("call_")
    assert one.id != two.id


def test_how_an_answer_with_calls_ends() -> None:
    for marked, reason, expected in (
        (True, "tool_calls", "tool_calls"),
        (True, "stop", "stop"),
        (True, "length", "length"),
        (False, "tool_calls", "stop"),
        (False, "content_filter", "content_filter"),
        (True, "content_filter", "content_filter"),
    ):
        answer = OpenAIAnswer(RecordingSink(), Failures(), marked=marked)
        answer.take(chat_chunk(finish_reason=reason).encode())
        assert answer.finish().finish_reason == expected


def test_a_reader_of_text_alone_is_given_no_call_and_content_is_what_it_is() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    answer.take(fragment(index=0, id="c1", function=_ADD).encode())
    assert (sink.tokens, sink.signs_of_life) == ([], 1)
    answer.take(chat_chunk("\x1e{").encode())
    assert sink.tokens == ["\x1e{"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 0, "id": "c1"},
        {"index": 0, "id": "c1", "function": {"name": ""}},
        {"index": 0, "function": {"arguments": "{}"}},
        {"index": "0", "id": "c1", "function": _ADD},
        {"index": -1, "id": "c1", "function": _ADD},
        {"index": 128, "id": "c1", "function": _ADD},
        {"index": 0, "id": 7, "function": _ADD},
        {"index": 0, "id": "c1", "function": {"name": "add", "arguments": {"a": 1}}},
        {"index": 0, "id": "c1", "function": {"name": "a" * 5000}},
        {"id": "c1", "function": {"arguments": "{}"}},
    ],
)
def test_what_is_no_fragment_fails(wrong: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        called(fragment(**wrong))


def test_what_the_sink_raises_passes_through() -> None:
    with pytest.raises(Full):
        OpenAIAnswer(RecordingSink(refuses_after=0), Failures()).take(chat_chunk("x").encode())


# -- what is beside the answer ---------------------------------------------------------------------


def told(*chunks: str) -> tuple[AnswerPart, ...]:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), marked=True, choices=2)
    for one in chunks:
        answer.take(one.encode())
    return MarkedTextReader().read(sink.text)


def test_a_choice_that_was_not_asked_for_is_left_out_and_none_is_merged_into_another() -> None:
    two = [chat_chunk("A"), chat_chunk("B", index=1, finish_reason="length")]
    together = orjson.dumps(
        {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}
    ).decode()
    backwards = orjson.dumps(
        {
            "choices": [
                {"index": 1, "delta": {"content": "b"}},
                {"index": 0, "delta": {"content": "a"}},
            ]
        }
    ).decode()
    for marked in (False, True):
        sink = RecordingSink()
        answer = OpenAIAnswer(sink, Failures(), marked=marked)
        for one in [*two, together, backwards, *two, chat_chunk(finish_reason="stop")]:
            answer.take(one.encode())
        assert (sink.text, answer.finish().finish_reason) == ("AaaA", "stop"), marked


@pytest.mark.parametrize("index", ["1", 1.5, -1, [], {}])
@pytest.mark.parametrize("marked", [False, True])
def test_a_choice_without_a_number_fails(index: object, marked: bool) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures(), marked=marked, choices=2)
    with pytest.raises(UpstreamFailed):
        answer.take(chat_chunk("x", index=index).encode())


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_keeps_its_name(name: str) -> None:
    (part,) = told(
        chat_chunk(delta={name: "Hm"}),
        chat_chunk(delta={name: ", so", "content": None}),
        chat_chunk("Yes"),
    )
    assert part == AnswerPart("Yes", asides={name: "Hm, so"})


def test_reasoning_under_both_names_comes_once() -> None:
    (part,) = told(
        chat_chunk(delta={"reasoning": "Hm", "reasoning_content": "Hm", "reasoning_details": [{}]})
    )
    assert part == AnswerPart(asides={"reasoning_content": "Hm"})


def test_log_probabilities_go_with_their_tokens() -> None:
    entries = {token: {"token": token, "logprob": -0.5, "bytes": None} for token in "ab"}
    chunks = [
        chat_chunk(text, logprobs={"content": [entry], "refusal": None})
        for text, entry in entries.items()
    ]
    assert told(*chunks) == (AnswerPart("ab", logprobs={"content": list(entries.values())}),)


def test_several_choices_and_how_each_ends() -> None:
    zero, one = told(
        chat_chunk("A"),
        chat_chunk("B", index=1),
        chat_chunk(index=1, finish_reason="length"),
        chat_chunk("a"),
        chat_chunk(finish_reason="stop"),
        chat_chunk(index=1, finish_reason="length"),
    )
    assert (zero, one) == (AnswerPart("Aa"), AnswerPart("B", choice=1, begins=True, end="length"))


def test_the_first_choice_s_end_is_the_answer_s() -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures(), marked=True)
    for index, reason in ((0, "length"), (1, "stop")):
        answer.take(chat_chunk("x", index=index, finish_reason=reason).encode())
    assert answer.finish().finish_reason == "length"


def test_a_custom_tool_is_called_by_its_own_name() -> None:
    (part,) = told(
        fragment(index=0, id="c1", type="custom", custom={"name": "sql", "input": ""}),
        fragment(index=0, custom={"input": "SELECT 1"}),
    )
    assert part.calls == (CallPart(0, "SELECT 1", "c1", "sql", "custom"),)


def test_a_refusal_is_marked_or_told_as_text() -> None:
    refusal = [chat_chunk(delta={"refusal": "I can"}), chat_chunk(delta={"refusal": "not."})]
    assert told(*refusal) == (AnswerPart(asides={"refusal": "I cannot."}),)
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    for one in [*refusal, chat_chunk(finish_reason="stop")]:
        answer.take(one.encode())
    assert (sink.text, answer.finish().finish_reason) == ("I cannot.", "content_filter")


def test_whoever_reasons_or_calls_lives() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    for delta in (
        {"role": "assistant"},
        {"reasoning_content": "Hm"},
        {"tool_calls": [{"index": 0}]},
    ):
        answer.take(chat_chunk(delta=delta).encode())
    assert (sink.tokens, sink.signs_of_life) == ([], 3)


def test_details_of_the_usage_are_kept_where_there_are_some() -> None:
    for details, cached, reasoning in (
        (
            {
                "prompt_tokens_details": {"cached_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            2,
            1,
        ),
        (
            {
                "prompt_tokens_details": None,
                "completion_tokens_details": {"reasoning_tokens": None},
            },
            None,
            None,
        ),
        (
            {"prompt_tokens_details": [2], "completion_tokens_details": {"reasoning_tokens": -1}},
            None,
            None,
        ),
    ):
        answer = OpenAIAnswer(RecordingSink(), Failures())
        answer.take(
            orjson.dumps(
                {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, **details}}
            )
        )
        answer.take(chat_chunk(finish_reason="stop").encode())
        usage = Usage(
            prompt_tokens=3, completion_tokens=4, cached_tokens=cached, reasoning_tokens=reasoning
        )
        assert answer.finish().usage == usage


@pytest.mark.parametrize("count", [None, -1, 2.5, "3"])
def test_a_usage_that_is_no_count_is_unknown_and_takes_nothing_of_the_answer_with_it(
    count: object,
) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk("x", finish_reason="stop").encode())
    answer.take(
        orjson.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count}})
    )
    assert answer.finish() == ModelFinish("stop", None)
