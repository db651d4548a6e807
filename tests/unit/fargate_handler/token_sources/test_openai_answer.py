from __future__ import annotations

import itertools
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.answer_body import AnswerBody
from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)
from evenflow.stream_core.log.entries import LONGEST_VALUE, Content, Part, PartKind
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
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink)
    for start, end in itertools.pairwise(edges):
        body.take(whole[start:end])
    assert sink.tokens == texts
    assert body.finish() == ModelFinish("stop", Usage(prompt_tokens=3, completion_tokens=4))


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
        b"}",
        b'{"choices": 7}',
        b'{"choices": [7]}',
        b'{"choices": [{"delta": 7}]}',
        b'{"choices": [{"delta": {"content": {"a": 1}}}]}',
        b'{"choices": [{"delta": {"tool_calls": 7}}]}',
        b'{"choices": [{"delta": {"tool_calls": [{"function": 7}]}}]}',
        b'{"error": "out of it"}',
        b'{"object": "error", "message": "out of it"}',
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
        ({"message": "secret", "code": 500}, (UpstreamAnswered, 502, "upstream_failed")),
        (
            {"message": "no", "code": "insufficient_quota"},
            (UpstreamRejected, 429, "insufficient_quota"),
        ),
        ({"message": "no", "code": 503}, (UpstreamAnswered, 503, "overloaded")),
        ({"message": "no", "code": "server_error"}, (UpstreamAnswered, 502, "upstream_failed")),
        ({"input": "secret"}, (UpstreamAnswered, 502, "upstream_failed")),
    ],
)
def test_an_error_in_the_place_of_a_chunk_keeps_what_it_says(
    error: dict[str, Any], expected: tuple[type[EvenflowError], int, str]
) -> None:
    with pytest.raises(EvenflowError) as failed:
        OpenAIAnswer(RecordingSink(), Failures()).take(orjson.dumps({"error": error}))
    assert (type(failed.value), failed.value.status, failed.value.code) == expected
    assert "secret" not in failed.value.message


_ROLE = chat_chunk(delta={"role": "assistant", "content": ""})
_OF_NO_KIND = '{"code": "E77", "info": "the pool is empty"}'


@pytest.mark.parametrize("chunks", [[], [_ROLE], [_OF_NO_KIND], [chat_usage(3, 0)]])
def test_an_end_without_an_answer_is_no_answer(
    chunks: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    for one in [*chunks, "[DONE]"]:
        answer.take(one.encode())
    with pytest.raises(UpstreamUnreadable, match="an end without an answer"):
        answer.finish()
    assert ("the pool is empty" in caplog.text) == (_OF_NO_KIND in chunks)


@pytest.mark.parametrize("delta", [{"content": "\ud83d"}, {"refusal": "No."}])
def test_an_end_behind_anything_of_an_answer_is_stop(delta: dict[str, str]) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode())
    answer.take(b"[DONE]")
    assert answer.finish() == ModelFinish("stop", None)


def test_of_half_an_answer_the_log_has_what_was_no_chunk(caplog: pytest.LogCaptureFixture) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk("x").encode())
    answer.take(_OF_NO_KIND.encode())
    with pytest.raises(UpstreamFailed, match="broke off"):
        answer.finish()
    assert "the pool is empty" in caplog.text


def test_an_error_in_a_choice_follows_what_the_choice_has() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), headers={"retry-after": "3"})
    error = {"code": 429, "message": "Rate limited"}
    with pytest.raises(UpstreamAnswered) as failed:
        answer.take(chat_chunk("Hi", finish_reason="error", error=error).encode())
    assert (failed.value.status, failed.value.retry_after_ms) == (429, 3_000)
    assert sink.tokens == ["Hi"]


@pytest.mark.parametrize(("reason", "is_told"), [("tired", True), ("stop", False)])
def test_an_unknown_finish_reason_is_logged(
    reason: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk("Hi", finish_reason=reason).encode())
    assert answer.finish() == ModelFinish("stop", None)
    assert ("unknown finish reason, which became `stop`: tired" in caplog.text) == is_told


def test_a_filter_s_end_has_its_cause_behind_it() -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk(finish_reason="content_filter: PROHIBITED_CONTENT").encode())
    answer.take(b"[DONE]")
    assert answer.finish() == ModelFinish("content_filter", None)


def fragment(**members: Any) -> str:
    return chat_chunk(delta={"tool_calls": [members]})


def told(*chunks: str, choices: int = 2) -> list[Content]:
    """What is pushed for these chunks and an end, joined."""
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), choices=choices)
    for one in [*chunks, chat_chunk(finish_reason="stop")]:
        answer.take(one.encode())
    answer.finish()
    return sink.answer


def call(number: int, arguments: str, call_id: str, name: str, choice: int = 0) -> list[Content]:
    """A call from its beginning to its end."""
    more = [Part(PartKind.ARGUMENTS, arguments, choice, number)] if arguments else []
    return [
        Part(PartKind.CALL, "", choice, number, call_id, name),
        *more,
        Part(PartKind.CALL_END, "", choice, number),
    ]


def value(name: str, said: object, choice: int = 0) -> Part:
    return Part(PartKind.DATA, orjson.dumps(said).decode(), choice, name=name)


_ADD = {"name": "add", "arguments": ""}


def test_fragments_of_calls_are_part_of_the_answer() -> None:
    assert told(
        chat_chunk(delta={"role": "assistant", "content": None}),
        chat_chunk("I add."),
        fragment(index=0, id="c1", type="function", function=_ADD),
        fragment(index=0, function={"arguments": '{"a"'}),
        fragment(index=0, function={"arguments": ":1}"}),
        fragment(index=1, id="c2", type="function", function={"name": "now", "arguments": "{}"}),
    ) == ["I add.", *call(0, '{"a":1}', "c1", "add"), *call(1, "{}", "c2", "now")]


def test_a_call_whose_arguments_are_whole_ends_where_the_answer_goes_on() -> None:
    begins = fragment(index=0, id="c1", function=_ADD | {"arguments": "{}"})
    further: list[tuple[str, Content]] = [
        (chat_chunk("Then"), "Then"),
        (chat_chunk(delta={"reasoning": "Hm"}), Part(PartKind.REASONING, "Hm", name="reasoning")),
        (chat_chunk(delta={"refusal": "No"}), Part(PartKind.REFUSAL, "No")),
    ]
    for chunk, content in further:
        assert told(chat_chunk("So"), begins, chunk) == ["So", *call(0, "{}", "c1", "add"), content]


def test_text_after_a_call_is_read_without_parsing_too() -> None:
    begins = fragment(index=0, id="c1", function=_ADD | {"arguments": "{}"})
    said = told(chat_chunk("a"), chat_chunk("b"), begins, chat_chunk("c"), chat_chunk("d"))
    assert said == ["ab", *call(0, "{}", "c1", "add"), "cd"]


def test_a_call_of_one_choice_goes_on_while_another_speaks() -> None:
    assert told(
        fragment(index=0, id="c1", function=_ADD),
        chat_chunk("B", index=1),
        fragment(index=0, function={"arguments": "{}"}),
    ) == [
        Part(PartKind.CALL, id="c1", name="add"),
        Part(PartKind.TEXT, "B", 1),
        Part(PartKind.ARGUMENTS, "{}"),
        Part(PartKind.CALL_END),
    ]


def test_several_calls_in_one_chunk() -> None:
    calls = [
        {"index": place, "id": f"c{place}", "function": {"name": "f", "arguments": f"[{place}]"}}
        for place in range(3)
    ]
    assert told(chat_chunk(delta={"tool_calls": calls})) == [
        part for place in range(3) for part in call(place, f"[{place}]", f"c{place}", "f")
    ]


def test_a_server_that_repeats_name_and_id_with_each_fragment() -> None:
    parts = [
        fragment(index=0, id="c0", function={"name": "add", "arguments": str(n)}) for n in range(3)
    ]
    assert told(*parts) == call(0, "012", "c0", "add")


def test_a_server_with_a_new_id_for_each_fragment() -> None:
    begins = fragment(index=0, id="c0", function={"name": "add", "arguments": "0"})
    more = [fragment(index=0, id=f"c{n}", function={"arguments": str(n)}) for n in (1, 2)]
    assert told(begins, *more) == call(0, "012", "c0", "add")


def test_a_server_that_does_not_count() -> None:
    assert told(
        fragment(id="c1", function={"name": "add", "arguments": "{"}),
        fragment(function={"arguments": "}"}),
        fragment(id="c2", function={"name": "add", "arguments": "{}"}),
    ) == [*call(0, "{}", "c1", "add"), *call(1, "{}", "c2", "add")]


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    said = told(fragment(index=0, function=_ADD), fragment(index=1, id="", function=_ADD))
    one, other = (part.id for part in said if isinstance(part, Part) and part.kind is PartKind.CALL)
    assert one.startswith("call_")
    assert one != other


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("tool_calls", "tool_calls"),
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("a reason of tomorrow", "stop"),
    ],
)
def test_how_the_model_ended(reason: str, expected: str) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk(finish_reason=reason).encode())
    assert answer.finish().finish_reason == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 0, "id": "c1"},
        {"index": 0, "id": "c1", "function": {"name": ""}},
        {"index": 0, "function": {"arguments": "{}"}},
        {"index": 0, "id": "c1", "function": {"name": "a" * 5000}},
        {"id": "c1", "function": {"arguments": "{}"}},
    ],
)
def test_what_is_no_fragment_fails(wrong: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        told(fragment(**wrong))


def test_what_the_sink_raises_passes_through() -> None:
    with pytest.raises(Full):
        OpenAIAnswer(RecordingSink(refuses_after=0), Failures()).take(chat_chunk("x").encode())


# -- what is beside the answer ---------------------------------------------------------------------


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
    assert told(*two, together, backwards, *two, choices=1) == ["AaaA"]


@pytest.mark.parametrize("index", [1.5, -1, [], {}, None, True])
def test_a_choice_without_a_number_has_its_place(index: object) -> None:
    assert told(chat_chunk("x", index=index)) == ["x"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_keeps_its_name(name: str) -> None:
    assert told(
        chat_chunk(delta={name: "Hm"}),
        chat_chunk(delta={name: ", so", "content": None}),
        chat_chunk("Yes"),
    ) == [Part(PartKind.REASONING, "Hm, so", name=name), "Yes"]


def test_reasoning_under_several_names_comes_once() -> None:
    both = {"reasoning_text": "Hm", "reasoning": "Hm", "reasoning_content": "Hm"}
    reasoned = Part(PartKind.REASONING, "Hm", name="reasoning_content")
    assert told(chat_chunk(delta=both)) == [reasoned]


def test_log_probabilities_come_token_by_token_before_their_text() -> None:
    a, b = ({"token": token, "logprob": -0.5, "bytes": None} for token in "ab")
    chunks = [
        chat_chunk("a", logprobs={"content": [a], "refusal": None}),
        chat_chunk("b", logprobs={"content": [b], "refusal": None}),
    ]
    one, other = value("logprobs", {"content": [a]}), value("logprobs", {"content": [b]})
    assert told(*chunks) == [one, "a", other, "b"]
    assert told(chat_chunk("ab", logprobs={"content": [a, b]})) == [one, other, "ab"]


def test_log_probabilities_that_are_too_long_are_left_out() -> None:
    assert told(chat_chunk("a", logprobs={"content": ["x" * 65_536]})) == ["a"]


def test_several_choices_and_how_each_ends() -> None:
    assert told(
        chat_chunk("A"),
        chat_chunk("B", index=1),
        chat_chunk(index=1, delta={"tool_calls": [{"index": 0, "id": "c1", "function": _ADD}]}),
        chat_chunk(index=1, finish_reason="length"),
        chat_chunk("a"),
        chat_chunk(index=1, finish_reason="length"),
    ) == [
        "A",
        Part(PartKind.TEXT, "B", 1),
        *call(0, "", "c1", "add", choice=1),
        value("finish", "length", 1),
        "a",
    ]


def test_there_are_so_many_choices() -> None:
    with pytest.raises(UpstreamFailed):
        told(chat_chunk("x", index=128), choices=200)


def test_what_the_answer_cites() -> None:
    citation = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 4}
    annotations = [
        {"type": "url_citation", "url_citation": citation | {"content": "much"}},
        {"type": "file_citation", "file_citation": {"file_id": "f"}},
    ]
    said = told(chat_chunk("Well"), chat_chunk(delta={"annotations": annotations}))
    assert said == ["Well", value("source", citation)]


def test_a_source_that_is_cited_at_two_places_is_one_at_each() -> None:
    cited = [{"url": "https://a.example", "start_index": place} for place in (0, 9)]
    annotations = [{"type": "url_citation", "url_citation": source} for source in cited]
    said = told(chat_chunk("Well", delta={"content": "Well", "annotations": annotations * 2}))
    assert said == ["Well", *(value("source", source) for source in cited)]


def test_a_server_that_repeats_its_sources_in_every_chunk() -> None:
    def chunk(text: str, **sources: object) -> str:
        return orjson.dumps(orjson.loads(chat_chunk(text)) | sources).decode()

    urls = ["https://a.example", "https://b.example"]
    sources = [value("source", {"url": url}) for url in urls]
    beside = value("chunk_extra", {"chunk": {"citations": urls}})
    said = told(*(chunk(text, citations=urls) for text in "ab"))
    assert said == ["a", *sources, "b", beside]
    results = [{"url": urls[0], "title": "A", "date": "2026"}, "nothing"]
    found = value("source", {"url": urls[0], "title": "A"})
    beside = value("chunk_extra", {"chunk": {"citations": urls, "search_results": results}})
    assert told(chunk("a", citations=urls, search_results=results)) == ["a", found, beside]


def test_the_first_choice_s_end_is_the_answer_s() -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    for index, reason in ((0, "length"), (1, "stop")):
        answer.take(chat_chunk("x", index=index, finish_reason=reason).encode())
    assert answer.finish().finish_reason == "length"


@pytest.mark.parametrize("failed", [0, 1])
def test_an_end_that_says_that_the_server_failed_is_an_error_behind_the_text(failed: int) -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), choices=2)
    for index in (1, 0):
        answer.take(chat_chunk("x", index=index).encode())
    for index in (1, 0):
        reason = "network_error" if index == failed else "stop"
        answer.take(chat_chunk(index=index, finish_reason=reason).encode())
    with pytest.raises(UpstreamFailed, match="network_error"):
        answer.finish()
    assert Part(PartKind.DATA, '"network_error"', 1, name="finish") not in sink.contents
    assert sink.text == "x"


def test_calls_with_one_id_have_two() -> None:
    calls = [
        fragment(index=0, id="c", function={"name": "a", "arguments": '{"x":1}'}),
        fragment(index=1, id="c", function={"name": "b", "arguments": '{"x":2}'}),
    ]
    assert told(*calls) == [*call(0, '{"x":1}', "c", "a"), *call(1, '{"x":2}', "c_2", "b")]


def test_a_call_in_the_form_before_tools_is_one() -> None:
    def legacy(**called: str) -> str:
        return chat_chunk(delta={"function_call": called})

    (begun, *rest) = told(
        legacy(name="add", arguments=""), legacy(arguments='{"a":'), legacy(arguments="1}")
    )
    assert isinstance(begun, Part)
    assert (begun.kind, begun.name, begun.id[:5]) == (PartKind.CALL, "add", "call_")
    assert rest == [Part(PartKind.ARGUMENTS, '{"a":1}'), Part(PartKind.CALL_END)]


def test_a_call_in_both_forms_is_one() -> None:
    function = {"name": "add", "arguments": "{}"}
    calls = [{"index": 0, "id": "c1", "type": "function", "function": function}]
    both = chat_chunk(delta={"tool_calls": calls, "function_call": function})
    assert told(both) == call(0, "{}", "c1", "add")


def test_an_answer_of_images_alone_is_no_answer_and_beside_text_they_are_left_out() -> None:
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]
    with pytest.raises(UpstreamRejected, match="images"):
        told(chat_chunk(delta={"content": "", "images": image}))
    assert told(chat_chunk(delta={"content": "See:", "images": image})) == ["See:"]


def test_a_custom_tool_is_called_by_its_own_name() -> None:
    assert told(
        fragment(index=0, id="c1", type="custom", custom={"name": "sql", "input": ""}),
        fragment(index=0, custom={"input": "SELECT 1"}),
    ) == [
        Part(PartKind.CALL, "custom", id="c1", name="sql"),
        Part(PartKind.ARGUMENTS, "SELECT 1"),
        Part(PartKind.CALL_END),
    ]


def test_a_refusal_is_one() -> None:
    refusal = [chat_chunk(delta={"refusal": "I can"}), chat_chunk(delta={"refusal": "not."})]
    assert told(*refusal) == [Part(PartKind.REFUSAL, "I cannot.")]


def test_a_chunk_that_says_nothing_is_a_sign_of_life() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    for delta in ({"role": "assistant"}, {"content": ""}, {"reasoning_content": "Hm"}):
        answer.take(chat_chunk(delta=delta).encode())
    assert (len(sink.contents), sink.signs_of_life) == (1, 2)


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
        ({"prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 1}, 2, None),
        ({"cached_tokens": 2, "total_tokens": 7}, 2, None),
        ({"cached_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}, 0, None),
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


@pytest.mark.parametrize(
    ("details", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 5}}, 5),
        ({"prompt_tokens_details": {"cache_creation_tokens": 5.0}}, 5),
        ({"cache_creation_input_tokens": 7}, 7),
        ({"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 90}}, 8),
        ({"prompt_tokens_details": {"cache_write_tokens": 2**63}}, 0),
        ({"prompt_tokens_details": [], "cache_creation_input_tokens": None}, 0),
    ],
)
def test_what_was_written_to_the_prompt_s_cache(details: dict[str, Any], written: int) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    counted = {"prompt_tokens": 10, "completion_tokens": 4, **details}
    answer.take(orjson.dumps({"choices": [], "usage": counted}))
    answer.take(chat_chunk(finish_reason="stop").encode())
    assert answer.finish().cache_written == written


@pytest.mark.parametrize("count", [None, -1, 2.5, "three", True, [], 2**63])
def test_a_usage_that_is_no_count_is_unknown_and_takes_nothing_of_the_answer_with_it(
    count: object,
) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    answer.take(chat_chunk("x", finish_reason="stop").encode())
    answer.take(
        orjson.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count}})
    )
    assert answer.finish() == ModelFinish("stop", None)


# -- agents that run their tools -------------------------------------------------------------------


def result(call_id: str, content: object = "7", **more: object) -> str:
    """The message of a tool, as an agent's conversation has it."""
    return chat_chunk(delta={"role": "tool", "tool_call_id": call_id, "content": content, **more})


def whole_call(call_id: str, **more: object) -> str:
    return fragment(id=call_id, function={"name": "add", "arguments": "{}"}, **more)


def gave(call_id: str, text: str = "7", name: str = "add") -> Part:
    return Part(PartKind.RESULT, text, id=call_id, name=name)


def test_a_tool_s_message_is_the_result_of_its_call_and_no_text() -> None:
    assert told(
        chat_chunk("Let me see. "),
        whole_call("c1", index=0),
        result("c1"),
        chat_chunk(delta={"role": "assistant", "content": "We have 7."}),
    ) == ["Let me see. ", *call(0, "{}", "c1", "add"), gave("c1"), "We have 7."]


def test_text_of_the_usual_form_stays_text_behind_a_result() -> None:
    said = told(chat_chunk("a"), whole_call("c1"), result("c1", "b"), chat_chunk("c"))
    assert said == ["a", *call(0, "{}", "c1", "add"), gave("c1", "b"), "c"]


@pytest.mark.parametrize("indexes", [(0, 1, 2), (0, 0, 1), (None, None, None)])
def test_an_agent_may_count_the_calls_of_each_step_anew(indexes: tuple[int | None, ...]) -> None:
    one, two, three = ({} if index is None else {"index": index} for index in indexes)
    assert told(
        whole_call("c1", **one),
        result("c1"),
        chat_chunk("Then "),
        whole_call("c2", **two),
        whole_call("c3", **three),
        result("c3"),
        result("c2"),
    ) == [
        *call(0, "{}", "c1", "add"),
        gave("c1"),
        "Then ",
        *call(1, "{}", "c2", "add"),
        *call(2, "{}", "c3", "add"),
        gave("c3"),
        gave("c2"),
    ]


def test_a_result_leaves_another_call_open_and_a_second_one_begins_none() -> None:
    assert told(
        whole_call("c1", index=0),
        fragment(index=1, id="c2", function={"name": "now", "arguments": "{"}),
        result("c1", "half"),
        fragment(index=1, function={"arguments": "}"}),
        result("c1", "whole"),
    ) == [
        *call(0, "{}", "c1", "add"),
        Part(PartKind.CALL, call=1, id="c2", name="now"),
        Part(PartKind.ARGUMENTS, "{", call=1),
        gave("c1", "half"),
        Part(PartKind.ARGUMENTS, "}", call=1),
        gave("c1", "whole"),
        Part(PartKind.CALL_END, call=1),
    ]


@pytest.mark.parametrize(
    ("more", "name"), [({}, "tool"), ({"name": "search"}, "search")], ids=["nameless", "named"]
)
def test_a_result_without_a_call_is_shown_at_one(more: dict[str, object], name: str) -> None:
    said = told(result("c9", "found", **more), chat_chunk("So"))
    assert said == [*call(0, "", "c9", name), gave("c9", "found", name), "So"]


def test_results_with_a_repeated_id_are_for_its_calls_in_their_order() -> None:
    parts = told(
        whole_call("c"),
        result("c", "one"),
        whole_call("c"),
        whole_call("c"),
        result("c", "two"),
        result("c", "three"),
    )
    results = [part for part in parts if isinstance(part, Part) and part.kind is PartKind.RESULT]
    assert results == [gave("c", "one"), gave("c_2", "two"), gave("c_3", "three")]


def test_a_result_without_an_id_is_that_of_the_first_call_without_one() -> None:
    calls = [whole_call("c1"), whole_call("c2")]
    said = told(*calls, result(""), result(""))
    results = [part for part in said if isinstance(part, Part) and part.kind is PartKind.RESULT]
    assert results == [gave("c1"), gave("c2")]
    *made, found = told(result("", "found"))
    assert (len(made), isinstance(found, Part) and found.id.startswith("call_")) == (2, True)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([{"type": "text", "text": "7 "}, {"type": "text", "text": "left"}], "7 left"),
        ([{"type": "image_url"}], '[{"type":"image_url"}]'),
        ({"left": 7}, '{"left":7}'),
        (7, "7"),
    ],
)
def test_what_a_tool_gave_is_text_whatever_its_form(content: object, text: str) -> None:
    assert told(whole_call("c1"), result("c1", content))[-1] == gave("c1", text)


def test_a_result_that_is_too_long_is_cut_and_says_so() -> None:
    *_, cut = told(whole_call("c1"), result("c1", "x" * 70_000))
    assert isinstance(cut, Part)
    assert len(cut.text) == LONGEST_VALUE
    assert cut.text.endswith("x… (cut: this result has 70,000 characters)")


def test_tools_that_groq_has_run_are_calls_with_results() -> None:
    def executed(**output: str) -> str:
        tool = {"index": 0, "type": "python", "arguments": "{}", **output}
        return chat_chunk(delta={"executed_tools": [tool]})

    assert told(executed(), executed(output="7"), chat_chunk("Seven.")) == [
        *call(0, "{}", "executed_0", "python"),
        gave("executed_0", name="python"),
        "Seven.",
    ]


def test_an_event_of_the_application_is_data_by_its_name() -> None:
    def event(**said: object) -> str:
        return orjson.dumps({"event": said}).decode()

    status = {"description": "Reading 3 pages", "done": False}
    left_out = [
        event(type="finish", data="stop"),
        event(type="logprobs", data={}),
        event(type=7),
        event(type="much", data="x" * 65_536),
        orjson.dumps({"event": "ping"}).decode(),
    ]
    assert told(event(type="status", data=status), *left_out, chat_chunk("So")) == [
        value("status", status),
        "So",
    ]
