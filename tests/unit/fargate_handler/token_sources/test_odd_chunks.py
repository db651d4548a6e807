"""Chunks out of the ordinary, which OpenAI's clients read."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamUnreadable
from evenflow.stream_core.log.entries import LONGEST_NAME, Content, Part, PartKind
from tests.integration.aws_models.events import chat_chunk
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_STOP = chat_chunk(finish_reason="stop")
_USAGE = Usage(prompt_tokens=1611, completion_tokens=7)


def read(*chunks: str | bytes, choices: int = 1) -> list[Content]:
    """What is pushed for these chunks and an end, joined."""
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures(), choices=choices)
    for chunk in (*chunks, _STOP):
        answer.take(chunk.encode() if isinstance(chunk, str) else chunk)
    answer.finish()
    return sink.answer


def fragment(index: int | None = 0, arguments: Any = None, **members: Any) -> dict[str, Any]:
    """A fragment of a call. `name` is the tool's."""
    name = {"name": members.pop("name")} if "name" in members else {}
    given = {} if arguments is None else {"arguments": arguments}
    counted = {} if index is None else {"index": index}
    return {**counted, "function": {**name, **given}, **members}


def calls(*fragments: dict[str, Any]) -> str:
    return chat_chunk(delta={"tool_calls": list(fragments)})


def begin(number: int, call_id: str, name: str) -> Part:
    return Part(PartKind.CALL, call=number, id=call_id, name=name)


def arguments(number: int, text: str) -> Part:
    return Part(PartKind.ARGUMENTS, text, call=number)


def end(number: int) -> Part:
    return Part(PartKind.CALL_END, call=number)


_A, _B = begin(0, "c_a", "a"), begin(1, "c_b", "b")
_WHOLE = [_A, arguments(0, '{"x":"1"}'), end(0)]
_BEGIN_A = fragment(0, '{"x":', id="c_a", name="a")
_REST_OF_A = fragment(0, '"1"}')


# -- calls -----------------------------------------------------------------------------------------


def test_fragments_of_two_calls_may_come_in_turn() -> None:
    both = calls(fragment(0, "", id="c_a", name="a"), fragment(1, "", id="c_b", name="b"))
    begun = [fragment(place, '{"x":') for place in (0, 1)]
    rest = [fragment(place, "1}") for place in (0, 1)]
    for chunks in ([calls(each) for each in (*begun, *rest)], [calls(*begun), calls(*rest)]):
        assert read(both, *chunks) == [
            *(_A, _B, arguments(0, '{"x":'), arguments(1, '{"x":')),
            *(arguments(0, "1}"), arguments(1, "1}"), end(0), end(1)),
        ]


def test_a_call_goes_on_behind_another_that_is_whole() -> None:
    other = fragment(1, '{"x":"2"}', id="c_b", name="b")
    assert read(calls(_BEGIN_A), calls(other), calls(_REST_OF_A)) == [
        *(_A, arguments(0, '{"x":'), _B, arguments(1, '{"x":"2"}'), arguments(0, '"1"}')),
        *(end(0), end(1)),
    ]


@pytest.mark.parametrize(
    ("chunk", "content"),
    [
        (chat_chunk("\n"), "\n"),
        (chat_chunk("ok"), "ok"),
        (chat_chunk(delta={"reasoning": "hm"}), Part(PartKind.REASONING, "hm", name="reasoning")),
        (chat_chunk(delta={"refusal": "no"}), Part(PartKind.REFUSAL, "no")),
    ],
)
def test_nothing_within_a_call_ends_it(chunk: str, content: Content) -> None:
    begun = [_A, arguments(0, '{"x":')]
    rest = [arguments(0, '"1"}'), end(0)]
    assert read(calls(_BEGIN_A), chunk, calls(_REST_OF_A)) == [*begun, content, *rest]
    bare = calls(fragment(0, "", id="c_a", name="a"))
    whole = calls(fragment(0, '{"x":"1"}'))
    assert read(bare, chunk, whole) == [_A, content, *_WHOLE[1:]]


def test_text_of_the_usual_form_within_a_call() -> None:
    chunks = [chat_chunk("a"), chat_chunk("b"), calls(_BEGIN_A), chat_chunk("c")]
    assert read(*chunks, chat_chunk("d"), calls(_REST_OF_A)) == [
        *("ab", _A, arguments(0, '{"x":'), "cd", arguments(0, '"1"}'), end(0))
    ]


@pytest.mark.parametrize(
    "fragments",
    [
        [fragment(0, '{"x":', id="c_a"), fragment(0, '"1"}', name="a")],
        [fragment(0, "", id="c_a", name=""), fragment(0, '{"x":"1"}', id="c_a", name="a")],
        [{"index": 0, "id": "c_a"}, fragment(0, "", name="a"), fragment(0, '{"x":"1"}')],
        [{"index": 0, "id": "c_a", "function": None}, fragment(0, '{"x":"1"}', name="a")],
        [{"id": "c_a"}, fragment(None, '{"x":', name="a"), fragment(None, '"1"}')],
        [fragment(0, '{"x":"1"}'), fragment(0, id="c_a", name="a")],
    ],
)
def test_a_call_begins_when_its_name_is_there(fragments: list[dict[str, Any]]) -> None:
    assert read(*map(calls, fragments)) == _WHOLE


def test_calls_begin_in_the_order_of_their_indexes() -> None:
    nameless, other = fragment(0, '{"x":', id="c_a"), fragment(1, "{}", id="c_b", name="b")
    named = fragment(0, '"1"}', name="a")
    expected = [*_WHOLE, _B, arguments(1, "{}"), end(1)]
    assert read(calls(nameless), calls(other), calls(named)) == expected
    nothing = fragment(0, "", id="")
    assert read(calls(nothing), calls(other)) == [_B, arguments(1, "{}"), end(1)]


def test_a_fragment_that_says_nothing_is_no_call() -> None:
    nothing = fragment(1, " ", id="", name="")
    assert read(calls(_BEGIN_A), calls(_REST_OF_A), calls(nothing)) == _WHOLE


def test_a_call_whose_name_never_comes_ends_the_answer_behind_its_text() -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    for chunk in (chat_chunk("So"), calls(fragment(0, "{}", id="c_a")), _STOP):
        answer.take(chunk.encode())
    with pytest.raises(UpstreamUnreadable, match="a call without a name"):
        answer.finish()
    assert sink.answer == ["So"]


def test_another_id_with_a_name_begins_another_call() -> None:
    one, other = fragment(0, '{"x":"1"}', id="c_a", name="a"), fragment(0, "{}", id="c_b", name="b")
    both = [*_WHOLE, _B, arguments(1, "{}"), end(1)]
    assert read(calls(one), calls(other)) == both
    assert read(calls(one, other)) == both
    assert read(calls(_BEGIN_A), calls(fragment(0, '"1"}', id="c_a", name="a"))) == _WHOLE


def test_a_server_that_does_not_count_and_repeats_the_id() -> None:
    one = fragment(None, '{"x":', id="c_a", name="a")
    more = fragment(None, '"1"}', id="c_a", name="a")
    assert read(calls(one), calls(more)) == _WHOLE


@pytest.mark.parametrize("index", ["0", 0.0])
def test_an_index_may_be_written_otherwise(index: object) -> None:
    begun = fragment(0, '{"x":', id="c_a", name="a") | {"index": index}
    assert read(calls(begun), calls(_REST_OF_A)) == _WHOLE


def test_an_index_beyond_all_calls_is_another_number() -> None:
    begun = fragment(5_000, "[", id="c_a", name="a")
    assert read(calls(begun), calls(fragment(5_000, "]"))) == [_A, arguments(0, "[]"), end(0)]


def test_there_are_so_many_calls() -> None:
    many = [calls(fragment(place, "{}", id=f"c{place}", name="f")) for place in range(129)]
    read(*many[:128])
    with pytest.raises(UpstreamUnreadable, match="out of range"):
        read(*many)


@pytest.mark.parametrize(("given", "text"), [({"x": 1}, '{"x":1}'), ([], "[]"), (7, "7")])
def test_arguments_that_are_no_string_are_their_json(given: object, text: str) -> None:
    assert read(calls(fragment(0, given, id="c_a", name="a"))) == [_A, arguments(0, text), end(0)]


def test_an_id_may_be_a_number() -> None:
    assert read(calls(fragment(0, id=7, name="a"))) == [begin(0, "7", "a"), end(0)]


def test_one_call_that_is_in_no_list() -> None:
    alone = chat_chunk(delta={"tool_calls": _BEGIN_A})
    null = chat_chunk(delta={"tool_calls": [None, _REST_OF_A]})
    assert read(alone, null) == _WHOLE


def test_more_of_a_call_that_has_ended_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = calls(fragment(0, '{"x":"1"}', id="c_a", name="a"))
    assert read(whole, chat_chunk("ok"), calls(fragment(0, " \n"))) == [*_WHOLE, "ok"]
    assert not caplog.records
    assert read(whole, chat_chunk("ok"), whole) == [*_WHOLE, "ok"]
    assert 'more of a call that had ended, which was left out: {"x":"1"}' in caplog.text


def test_arguments_that_are_long_and_never_whole_are_not_read_again_and_again() -> None:
    begun = calls(fragment(0, '{"x":"', id="c_a", name="a"))
    more = [each for _ in range(300) for each in (calls(fragment(0, "y" * 9_000)), chat_chunk("z"))]
    assert read(begun, *more, calls(fragment(0, '"}')))[-1] == end(0)


# -- halves of surrogate pairs ---------------------------------------------------------------------


def raw(delta: bytes, index: int = 0) -> bytes:
    return b'{"choices":[{"index":%d,"delta":%b}]}' % (index, delta)


def said(text: bytes) -> bytes:
    return raw(b'{"content":"%b"}' % text)


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ([b"A\\ud83d", b"\\ude00B"], "A😀B"),
        ([b"\\ud83d", b"\\ude00"], "😀"),
        ([b"A\\ud83d B"], "A\ufffd B"),
        ([b"A\\ud83d", b" B"], "A\ufffd B"),
        ([b"A\\ud83d", b"\\ud83d", b"\\ude00"], "A\ufffd😀"),
        ([b"\\ude00A"], "\ufffdA"),
        ([b"A", b"\\ud83d"], "A\ufffd"),
        ([b"a", b"b", b"c\\ud83d", b"d"], "abc\ufffdd"),
        ([b"\xff"], "\ufffd"),
    ],
)
def test_half_a_character_waits_for_the_other_half(texts: list[bytes], text: str) -> None:
    assert read(*map(said, texts)) == [text]
    thoughts = (raw(b'{"reasoning":"%b"}' % each) for each in texts)
    assert read(*thoughts) == [Part(PartKind.REASONING, text, name="reasoning")]
    assert read(*(raw(b'{"content":"%b"}' % each, 1) for each in texts), choices=2) == [
        Part(PartKind.TEXT, text, 1)
    ]


def test_half_a_character_in_arguments() -> None:
    begun = calls(fragment(0, '{"x":"', id="c_a", name="a"))
    halves = [rb"\ud83d", rb"\ude00", rb"\ud83d", rb"\"}", rb"\ud83d"]
    more = [
        raw(b'{"tool_calls":[{"index":0,"function":{"arguments":"%b"}}]}' % half)
        for half in halves
    ]  # fmt: skip
    assert read(begun, *more) == [_A, arguments(0, '{"x":"😀\ufffd"}\ufffd'), end(0)]


def test_half_a_character_waits_while_something_else_comes() -> None:
    thought = raw(b'{"reasoning":"x"}')
    assert read(said(b"A\\ud83d"), thought, said(b"\\ude00B")) == [
        *("A", Part(PartKind.REASONING, "x", name="reasoning"), "😀B")
    ]


def test_half_a_character_elsewhere() -> None:
    called = raw(
        b'{"tool_calls":[{"index":0,"id":"c\\ud83d","function":{"name":"f\\ud83d"}}],'
        b'"annotations":[{"url_citation":{"url":"https://a.example","title":"\\ud83d"}}]}'
    )
    assert read(called) == [
        begin(0, "c\ufffd", "f\ufffd"),
        Part(PartKind.DATA, '{"url":"https://a.example","title":"\ufffd"}', name="source"),
        end(0),
    ]


# -- contents --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}], ["Hello"]),
        (["Hel", None, {"text": "lo"}], ["Hello"]),
        ({"type": "text", "text": "Hello"}, ["Hello"]),
        ([{"type": "image_url", "image_url": {"url": "data:"}}], []),
        ([], []),
        (False, []),
        (7, ["7"]),
        (True, ["true"]),
    ],
)
def test_a_content_that_is_no_string(content: object, expected: list[Content]) -> None:
    assert read(chat_chunk(delta={"content": content})) == expected


@pytest.mark.parametrize("thinking", [[{"type": "text", "text": "hm"}], "hm"])
def test_the_thoughts_of_mistral_s_models(thinking: object) -> None:
    thought = {"type": "thinking", "thinking": thinking}
    reasoning = Part(PartKind.REASONING, "hm", name="reasoning_content")
    assert read(chat_chunk(delta={"content": [thought]}), chat_chunk("Hello")) == [
        *(reasoning, "Hello")
    ]
    both = chat_chunk(delta={"content": [thought, {"type": "text", "text": "Hello"}]})
    assert read(both) == [reasoning, "Hello"]


def test_reasoning_may_be_a_list_too() -> None:
    chunk = chat_chunk(delta={"reasoning": [{"type": "text", "text": "h"}, {"text": "m"}]})
    assert read(chunk) == [Part(PartKind.REASONING, "hm", name="reasoning")]


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"null", b"7", b"[1]", b"50%", b"keep-alive", b'"x"', b'{"type":"ping"}', b"[]",
     b'{"choices":null}', b'{"choices":[null]}', b'{"choices":{}}', b'{"choices":[{"delta":null}]}',
     b'{"choices":[{"delta":{"tool_calls":null}}]}', b'{"choices":[{}]}'],
)  # fmt: skip
def test_what_is_no_chunk_or_says_nothing_is_a_sign_of_life(data: bytes) -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    assert answer.take(data)
    answer.take(chat_chunk("Hello").encode())
    assert (sink.answer, sink.signs_of_life) == (["Hello"], 1)


@pytest.mark.parametrize("more", [{"model": 1}, {"choices": None, "id": 7}, {"created": "now"}])
def test_fields_that_are_missing_null_or_of_another_type(more: dict[str, Any]) -> None:
    chunk = orjson.dumps(more | {"choices": [{"delta": {"content": "Hello", "role": None}}]})
    assert read(chunk) == ["Hello"]


@pytest.mark.parametrize("number", [b"-Infinity", b"NaN", b"Infinity"])
def test_log_probabilities_that_are_no_numbers(number: bytes) -> None:
    chunk = (
        b'{"choices":[{"delta":{"content":"Hi"},'
        b'"logprobs":{"content":[{"token":"Hi","logprob":%b}]}}]}'
    ) % number
    logprobs, text = read(chunk)
    assert isinstance(logprobs, Part)
    assert orjson.loads(logprobs.text)["content"] == [{"token": "Hi", "logprob": -9999.0}]
    assert text == "Hi"


def test_a_citation_of_seventy_kilobytes() -> None:
    def citing(**source: str) -> str:
        return chat_chunk(delta={"annotations": [{"url_citation": source}, "nothing"]})

    url = "https://a.example"
    assert read(citing(url=url, title="x" * 70_000), citing(url=url + "x" * 70_000), "null") == [
        Part(
            PartKind.DATA,
            orjson.dumps({"url": url, "title": "x" * LONGEST_NAME}).decode(),
            name="source",
        )
    ]


# -- usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": {"prompt_tokens": 1611.0, "completion_tokens": 7.0}},
        {"choices": [], "usage": {"prompt_tokens": "1611", "completion_tokens": "7"}},
        {"choices": None, "usage": {"prompt_tokens": 1611, "completion_tokens": 7, "x": None}},
        {"choices": [{"delta": {}, "usage": {"prompt_tokens": 1611, "completion_tokens": 7}}]},
        {"x_groq": {"usage": {"prompt_tokens": 1611, "completion_tokens": 7}}},
        {"usage": {"prompt_tokens": 1611, "completion_tokens": 7, "prompt_tokens_details": []}},
    ],
)
@pytest.mark.parametrize("is_last", [False, True])
def test_a_usage_in_an_odd_place_or_of_an_odd_type(chunk: object, *, is_last: bool) -> None:
    answer = OpenAIAnswer(RecordingSink(), Failures())
    chunks = [_STOP.encode(), orjson.dumps(chunk), b'{"usage":null}', b'{"usage":[7]}']
    for data in chunks if is_last else reversed(chunks):
        answer.take(data)
    assert answer.finish() == ModelFinish("stop", _USAGE)


# -- what can't be read ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"choices":[{"delta":{"content":"sk-abcdefghi', "JSON that is broken"),
        (b'{"choices":"a lot"}', "`choices` that is no list"),
        (
            b'{"choices":[{"delta":{"content":{"a":1}}}]}',
            "`choices[].delta.content` that is no text",
        ),
        (b"[" * 2_000 + b"{" + b"]" * 2_000, "JSON that is broken"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_text_so_far_is_kept(
    data: bytes, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    answer.take(chat_chunk("So").encode())
    with pytest.raises(UpstreamUnreadable) as failed:
        answer.take(data)
    assert failed.value.message == f"the model's server sent {what}; what came before was kept"
    assert sink.answer == ["So"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert what in record.getMessage()
    assert len(record.getMessage()) < 300
    assert "abcdefghi" not in record.getMessage()
