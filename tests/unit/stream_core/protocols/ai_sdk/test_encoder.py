from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.delivery.response_stream import Cancelled, ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.ai_sdk.encoder import UIMessageChunks
from tests.unit.stream_core.encoding.test_block_encoder import answer
from tests.unit.stream_core.protocols.readers import events_of

_CALL = Part(PartKind.CALL, call=0, id="call_1", name="add")
_END = Part(PartKind.CALL_END, call=0)


def _arguments(text: str) -> Part:
    return Part(PartKind.ARGUMENTS, text)


def _told(stream: ResponseStream, next_index: int = 0, message_id: str | None = "m1") -> list[Any]:
    """The chunks, `[DONE]` as a text."""
    encoder = BlockEncoder(UIMessageChunks(message_id), stream, ResumePoint(next_index), 100)
    data = encoder.opening
    while more := encoder.take():
        data += more
    return [
        "[DONE]" if event.data == b"[DONE]" else orjson.loads(event.data)
        for event in events_of(data)
    ]


def _said(*contents: Content) -> list[Any]:
    """The chunks between the step's beginning and its end."""
    stream = answer(*contents)
    stream.complete("stop", None)
    return _told(stream)[2:-3]


def test_an_answer_is_a_step_of_a_message() -> None:
    stream = answer("a")
    stream.complete("content_filter", None)
    assert _told(stream) == [
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "a"},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "content-filter"},
        "[DONE]",
    ]


def test_a_message_that_is_continued_keeps_its_id() -> None:
    assert _told(answer(), message_id=None)[0] == {"type": "start"}


def test_who_resumes_in_the_middle_is_told_the_rest_alone() -> None:
    assert _told(answer("a", "b"), 1) == [{"type": "text-delta", "id": "0", "delta": "b"}]


def test_who_has_what_is_not_on_record_drops_it() -> None:
    chunks = UIMessageChunks("m1", afresh=True)
    (told,) = events_of(BlockEncoder(chunks, answer("a"), ResumePoint(0), 100).opening)
    assert orjson.loads(told.data) == {"type": "reset-step"}


def test_reasoning_says_in_which_field_it_came_and_what_its_server_needs_back() -> None:
    field = {"providerMetadata": {"evenflow": {"field": "reasoning"}}}
    fields = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
    kept = {"providerMetadata": {"evenflow": {"field": "reasoning", "extra": fields}}}
    assert _said(Part(PartKind.REASONING, "x", name="reasoning"), _fields(fields)) == [
        {"type": "reasoning-start", "id": "0", **field},
        {"type": "reasoning-delta", "id": "0", "delta": "x"},
        {"type": "reasoning-end", "id": "0", **kept},
    ]


def test_a_text_and_a_call_say_what_their_server_needs_back() -> None:
    fields = {"extra_content": {"a": 1}}
    kept = {"providerMetadata": {"evenflow": {"extra": fields}}}
    of_call = Part(PartKind.DATA, orjson.dumps(fields).decode(), name=CALL_EXTRA)
    told = _said("a", _fields(fields), of_call, _CALL, _END)
    assert [chunk["type"] for chunk in told if "providerMetadata" in chunk] == [
        *("text-end", "tool-input-available"),
    ]
    assert [chunk["providerMetadata"] for chunk in told if "providerMetadata" in chunk] == [
        kept["providerMetadata"]
    ] * 2


def _fields(fields: dict[str, Any]) -> Part:
    return Part(PartKind.DATA, orjson.dumps(fields).decode(), name=EXTRA)


def test_a_call_has_its_input_when_it_is_whole() -> None:
    named = {"toolCallId": "call_1", "toolName": "add"}
    assert _said(_CALL, _arguments('{"a"'), _arguments(":1}"), _END)[:1] == [
        {"type": "tool-input-start", **named}
    ]
    assert _said(_CALL, _arguments('{"a":1}'), _END)[-1] == {
        "type": "tool-input-available",
        **named,
        "input": {"a": 1},
    }
    assert _said(_CALL, _END)[-1]["input"] == {}


@pytest.mark.parametrize("wrong", ['{"a":', "[1]", '"x"', '{"a":1}{"a":2}'])
def test_arguments_that_are_no_json_object_are_an_error_of_the_call(wrong: str) -> None:
    last = _said(_CALL, _arguments(wrong))[-1]
    assert (last["type"], last["input"]) == ("tool-input-error", wrong)


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ((_CALL, _END), "tool-calls"),
        ((_CALL, _END, Part(PartKind.RESULT, "3", id="call_1", name="add")), "stop"),
    ],
)
@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_calls_to_run_are_the_reason_of_the_end(
    contents: tuple[Content, ...], told: str, reason: str
) -> None:
    stream = answer(*contents)
    stream.complete(reason, None)
    assert _told(stream)[-2] == {"type": "finish", "finishReason": told}


@pytest.mark.parametrize("none", [" \n", "null"])
def test_arguments_that_say_nothing_are_none(none: str) -> None:
    assert _said(_CALL, _arguments(none), _END)[-1]["input"] == {}


def test_a_custom_tool_is_given_any_text() -> None:
    start, _, end = _said(
        Part(PartKind.CALL, "custom", id="call_1", name="shell"), _arguments("ls"), _END
    )
    assert (start["inputEncoding"], end["type"], end["input"]) == (
        *("text", "tool-input-available"),
        "ls",
    )


@pytest.mark.parametrize(
    ("text", "output"), [("3", "3"), ('{"sum":3}', {"sum": 3}), ("[not a list", "[not a list")]
)
def test_a_result_is_an_object_where_it_is_one(text: str, output: object) -> None:
    told = _said(_CALL, _END, Part(PartKind.RESULT, text, id="call_1", name="add"))[-1]
    assert told == {
        "type": "tool-output-available",
        "toolCallId": "call_1",
        "output": output,
        "providerExecuted": True,
    }


def test_sources_and_data_are_parts() -> None:
    source = '{"url":"https://example.org/","title":"One"}'
    assert _said(
        Part(PartKind.DATA, source, name="source"),
        Part(PartKind.DATA, '{"place":1}', name="source"),
        Part(PartKind.DATA, '{"done":7}', id="p1", name="progress"),
        Part(PartKind.DATA, '{"content":[]}', name="logprobs"),
    ) == [
        {
            "type": "source-url",
            "sourceId": "source-0",
            "url": "https://example.org/",
            "title": "One",
        },
        {"type": "data-source", "data": {"place": 1}},
        {"type": "data-progress", "id": "p1", "data": {"done": 7}},
    ]


@pytest.mark.parametrize("reason", ["cancelled", "abandoned"])
def test_a_stopped_answer_is_aborted(reason: Cancelled) -> None:
    stream = answer("a")
    stream.cancel(reason)
    assert _told(stream)[-3:] == [
        {"type": "text-end", "id": "0"},
        {"type": "abort", "reason": reason},
        "[DONE]",
    ]


def test_an_error_has_its_words_and_code() -> None:
    told = UIMessageChunks("m1").failure(UpstreamFailed("it broke", code="upstream_failed"))
    first, last = events_of(told)
    assert orjson.loads(first.data) == {
        "type": "error",
        "errorText": "it broke",
        "code": "upstream_failed",
    }
    assert last.data == b"[DONE]"
