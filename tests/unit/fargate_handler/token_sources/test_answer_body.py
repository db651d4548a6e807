"""The body of an answer in the forms in which servers send it."""

from __future__ import annotations

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
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamUnreadable,
)
from evenflow.stream_core.log.entries import Content, Part, PartKind, text_of
from tests.integration.aws_models.events import chat_chunk, chat_usage, sse
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink

_HELLO = sse(chat_chunk("Hello"))
_STOP = sse(chat_chunk(finish_reason="stop"))
_USAGE = Usage(prompt_tokens=11, completion_tokens=42)
_MIB = 1_048_576


def read(
    *pieces: bytes, response_bytes: int = 0, most: int | None = None
) -> tuple[list[Content], ModelFinish]:
    """What is pushed for a body in these pieces, and how it ended."""
    sink = RecordingSink(refuses_after=most)
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink, response_bytes)
    for piece in pieces:
        if not body.take(piece):
            break
    finish = body.finish()
    return sink.answer, finish


class PausingSink(RecordingSink):
    """It is paused after each token."""

    def push(self, token: str) -> None:
        super().push(token)
        self.paused = True


def test_the_events_of_a_piece_wait_while_the_sink_is_paused() -> None:
    sink = PausingSink()
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink)
    pieces = sse(*(chat_chunk(token) for token in "abc")), b"", sse(chat_chunk("d")), b"", b""
    texts = list[str]()
    for piece in pieces:
        sink.paused = False
        assert body.take(piece)
        texts.append(sink.text)
    assert texts == ["a", "ab", "abc", "abcd", "abcd"]


def test_pieces_that_end_within_the_next_event_at_the_same_byte_lose_nothing() -> None:
    events = [sse(chat_chunk(token)) for token in "abcdef"]
    beginning = events[0][:20]
    pieces = [
        cut
        for one, other in zip(events[::2], events[1::2], strict=True)
        for cut in (one + beginning, other.removeprefix(beginning))
    ]
    assert read(*pieces, _STOP)[0] == ["abcdef"]


_EVENTS = st.sampled_from(
    [
        *(sse(chat_chunk(text)) for text in ("a", "grüße", '"\\n', "")),
        sse(chat_chunk("a")).replace(b"\n", b"\r\n"),
        sse(chat_chunk("b")).replace(b"\n", b"\r"),
        b": here\n\n",
        b": here\n" + sse(chat_chunk("c")),
        b"id: 1\n" + sse(chat_chunk("d")),
        sse(chat_chunk("e")).removesuffix(b"\n"),
        sse(chat_chunk("f")).replace(b": ", b":", 1),
        b"event: x\n",
        b"\n",
    ]
)


@given(st.lists(st.lists(_EVENTS, max_size=3).map(b"".join), max_size=12))
def test_the_pieces_of_a_body_do_not_change_what_is_read(pieces: list[bytes]) -> None:
    by_byte = [bytes([one]) for one in b"".join(pieces)]
    assert _taken(pieces) == _taken(by_byte)


def _taken(pieces: list[bytes]) -> tuple[list[str], bool]:
    """The tokens, and whether all could be read."""
    sink = RecordingSink()
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink)
    try:
        for piece in pieces:
            assert body.take(piece)
    except UpstreamUnreadable:
        return sink.tokens, False
    return sink.tokens, True


@pytest.mark.parametrize(
    "done",
    [
        b"data: [DONE]\n\n",
        b"data: [DONE] \n\n",
        b"data: [DONE]\t\n\n",
        b"data:[DONE]\n\n",
        b"data:  [DONE]\n\n",
        b"data: [DONE]\r\n\r\n",
        b"data: [DONE]\n\ndata: [DONE]\n\n",
        b"data: [DONE]\n",
        b"data: [DONE]",
    ],
)
@pytest.mark.parametrize("finish", ["null", "empty", "missing", "stop"])
def test_the_server_s_own_word_that_it_is_done(done: bytes, finish: str) -> None:
    last: dict[str, Any] = {"index": 0, "delta": {}}
    if finish != "missing":
        last["finish_reason"] = {"null": None, "empty": "", "stop": "stop"}[finish]
    end = sse(orjson.dumps({"choices": [last]}).decode())
    whole = _HELLO + end + done
    for pieces in ([whole], [_HELLO, end, done], [bytes([byte]) for byte in whole]):
        assert read(*pieces) == (["Hello"], ModelFinish("stop", None))


def test_done_behind_a_call_is_its_end() -> None:
    called = {"index": 0, "id": "c", "function": {"name": "add", "arguments": "{}"}}
    chunk = chat_chunk(delta={"tool_calls": [called]})
    assert read(sse(chunk), b"data: [DONE]\n\n")[1].finish_reason == "tool_calls"


def test_what_is_behind_the_end_is_not_read() -> None:
    assert read(_HELLO, _STOP, sse("[DONE]"), b"data: {\n\n")[0] == ["Hello"]


@pytest.mark.parametrize("end", [b"", b"data: ", b'data: {"choices":[{"del', b"data: x\n"])
def test_half_an_answer_broke_off(end: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="broke off"):
        read(_HELLO, end)


def test_an_event_that_is_whole_counts_without_the_empty_line_behind_it() -> None:
    assert read(_HELLO, _STOP.rstrip()) == (["Hello"], ModelFinish("stop", None))


_COMPLETION = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "reasoning_content": "Hm",
                "content": "Hello",
                "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 11, "completion_tokens": 42},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("before", "behind"), [("", ""), ("\n ", "\n\n")])
def test_a_whole_answer_in_place_of_a_stream(indent: int | None, before: str, behind: str) -> None:
    written = f"{before}{json.dumps(_COMPLETION, indent=indent)}{behind}".encode()
    expected = [
        Part(PartKind.REASONING, "Hm", name="reasoning_content"),
        "Hello",
        Part(PartKind.CALL, id="c", name="add"),
        Part(PartKind.ARGUMENTS, "{}"),
        Part(PartKind.CALL_END),
    ]
    for pieces in ([written], [written[:50], written[50:]], [bytes([byte]) for byte in written]):
        assert read(*pieces) == (expected, ModelFinish("tool_calls", _USAGE))
    event = sse(json.dumps(_COMPLETION))
    assert read(event, b"data: [DONE]\n\n") == (expected, ModelFinish("tool_calls", _USAGE))


def test_a_message_behind_the_deltas_says_it_again() -> None:
    last = chat_chunk(finish_reason="stop", message={"role": "assistant", "content": "Hello"})
    assert read(_HELLO, sse(last))[0] == ["Hello"]


def test_half_a_whole_answer_broke_off() -> None:
    with pytest.raises(UpstreamFailed, match="broke off"):
        read(json.dumps(_COMPLETION)[:-20].encode())


def test_an_error_in_place_of_a_stream() -> None:
    error = {"error": {"message": "no", "code": 429}}
    for body in (json.dumps(error), json.dumps([error])):
        with pytest.raises(UpstreamAnswered):
            read(body.encode())


@pytest.mark.parametrize("data", ['{"message": "no", "code": 429}', '{"error": {"code": 429}}'])
def test_an_event_with_the_name_of_an_error(data: str) -> None:
    with pytest.raises(UpstreamAnswered):
        read(_HELLO, f"event: error\ndata: {data}\n\n".encode())
    with pytest.raises(UpstreamAnswered):
        read(_HELLO, b"event: error\n", f"data: {data}\n\n".encode())
    named = f"event: progress\ndata: {json.dumps({'message': 'reading'})}\n\n".encode()
    assert read(named, _HELLO, _STOP)[0] == ["Hello"]


@pytest.mark.parametrize("text", ["x" * 1_200_000, "流" * 400_000])
@pytest.mark.parametrize("as_ascii", [False, True])
def test_an_event_may_be_as_long_as_an_answer(text: str, *, as_ascii: bool) -> None:
    event = f"data: {json.dumps(json.loads(chat_chunk(text)), ensure_ascii=as_ascii)}\n\n".encode()
    pieces = [event[start : start + 32_768] for start in range(0, len(event), 32_768)]
    assert read(*pieces, _STOP) == ([text], ModelFinish("stop", None))


_LONG = '"流\\\n' * 500_000
_CALLED = {"id": "c", "function": {"name": "f", "arguments": _LONG}}
_MESSAGE = {"choices": [{"message": {"content": _LONG}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "body",
    [
        b"data: " + chat_chunk(_LONG).encode(),
        b"data: " + chat_chunk(delta={"tool_calls": [_CALLED]}).encode(),
        json.dumps(_MESSAGE).encode(),
    ],
    ids=["text", "arguments", "a whole answer"],
)
@pytest.mark.parametrize("size", [32_768, 32_767, 32_766])
def test_of_a_longer_event_what_fits_is_kept(body: bytes, size: int) -> None:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    answer, finish = read(*pieces)
    assert finish == ModelFinish("length", None)
    said = "".join(text_of(content) for content in answer)
    assert len(said) > 1_000_000
    assert _LONG.startswith(said)


def test_a_sink_that_is_full_ends_the_answer_within_a_long_event() -> None:
    with pytest.raises(Full):
        read(b"data: " + chat_chunk("x" * 4 * _MIB).encode(), most=0)


def test_an_event_without_end_in_which_nothing_is_fails() -> None:
    with pytest.raises(UpstreamUnreadable, match="too long"):
        read(*[b"data: " + b"x" * 65_536] * 60)
    with pytest.raises(UpstreamUnreadable, match="too long"):
        read(*[b"{" + b" " * 65_536] * 60)


def test_a_body_has_a_bound() -> None:
    sink = RecordingSink()
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink)
    comment = b":" + b" " * (_MIB - 3) + b"\n\n"
    for _ in range(256):
        body.take(comment)
    with pytest.raises(UpstreamFailed, match="more than one answer may have"):
        body.take(comment)


def test_comments_are_signs_of_life() -> None:
    sink = RecordingSink()
    body = AnswerBody(OpenAIAnswer(sink, Failures()), sink)
    for piece in (b": a\n\n", b": b\n\n: c\n\n", b"data: ", b"x\n\n"):
        body.take(piece)
    assert sink.signs_of_life == 3
    assert sink.contents == []


def test_a_usage_behind_the_end() -> None:
    assert read(_HELLO, _STOP, sse(chat_usage(11, 42)))[1] == ModelFinish("stop", _USAGE)


def test_whether_the_answer_has_ended() -> None:
    for chunks, choices, has_ended in (
        ([chat_chunk("x")], 1, False),
        ([chat_chunk("x", finish_reason="stop")], 1, True),
        ([chat_chunk("x", finish_reason="stop")], 2, False),
        ([chat_chunk(index=place, finish_reason="stop") for place in (0, 1)], 2, True),
        (["[DONE]"], 2, True),
    ):
        answer = OpenAIAnswer(RecordingSink(), Failures(), choices=choices)
        for chunk in chunks:
            answer.take(chunk.encode())
        assert answer.has_ended == has_ended
