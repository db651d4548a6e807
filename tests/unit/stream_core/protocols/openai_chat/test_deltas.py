from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.log.returned_fields import detail_of
from evenflow.stream_core.protocols.openai_chat.bodies import CompletionChunk
from evenflow.stream_core.protocols.openai_chat.deltas import (
    Choice,
    CompletionDeltas,
    WholeChoice,
    choice_object,
)
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.log.contents import CONTENTS
from tests.unit.stream_core.protocols.readers import ServerSentEvent, events_of


def told(*contents: Content) -> list[Choice]:
    deltas = CompletionDeltas()
    choices = [choice for one in contents if (choice := deltas.take(one)) is not None]
    return [*choices, *deltas.take_pending()]


def data(name: str, value: object, choice: int = 0) -> Part:
    return Part(PartKind.DATA, orjson.dumps(value).decode(), choice, name=name)


def citation(source: dict[str, Any], end: int) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url_citation": {**source, "start_index": 0, "end_index": end},
    }


@pytest.mark.parametrize(
    ("content", "delta"),
    [
        ("Yes", {"content": "Yes"}),
        (Part(PartKind.REASONING, "Hm", name="reasoning"), {"reasoning": "Hm"}),
        (Part(PartKind.REASONING, "Hm", name="reasoning_content"), {"reasoning_content": "Hm"}),
        (Part(PartKind.REASONING, "Hm", name="reasoning_text"), {"reasoning_text": "Hm"}),
        (Part(PartKind.REASONING, "Hm", name="thoughts"), {"reasoning_content": "Hm"}),
        (Part(PartKind.REFUSAL, "No"), {"refusal": "No"}),
        (
            Part(PartKind.CALL, call=1, id="c", name="f"),
            {
                "tool_calls": [
                    {
                        "index": 1,
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": ""},
                    }
                ]
            },
        ),
        (
            Part(PartKind.CALL, "custom", id="c", name="f"),
            {
                "tool_calls": [
                    {"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": ""}}
                ]
            },
        ),
    ],
)
def test_what_a_content_is_in_a_chunk(content: Content, delta: dict[str, Any]) -> None:
    assert told(content) == [
        {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None},
    ]


@pytest.mark.parametrize(
    "content",
    [
        Part(PartKind.CALL_END),
        Part(PartKind.RESULT, "3", id="c", name="f"),
        Part(PartKind.ARGUMENTS, "{}"),
        data("finish", "length"),
        data("finish", "tired", 1),
        data("progress", 0.5),
    ],
)
def test_what_openais_api_has_no_word_for_is_left_out(content: Content) -> None:
    assert told(content) == []


_SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
_ENTRY = {"type": "reasoning.text", "index": 0}
_DETAIL = detail_of("reasoning_details", _ENTRY, "text")


@pytest.mark.parametrize(
    ("content", "delta"),
    [
        (data(EXTRA, _SIGNED), _SIGNED),
        (data(EXTRA, _SIGNED | {"role": "user", "content": "x"}), _SIGNED),
        (
            Part(PartKind.REASONING, "Hm", id=_DETAIL, name="reasoning"),
            {"reasoning": "Hm", "reasoning_details": [_ENTRY | {"text": "Hm"}]},
        ),
        (
            Part(PartKind.REASONING, "Hm", id=_DETAIL),
            {"reasoning_details": [_ENTRY | {"text": "Hm"}]},
        ),
    ],
)
def test_what_the_server_needs_back_is_told_as_it_told_it(
    content: Content, delta: dict[str, Any]
) -> None:
    assert [one["delta"] for one in told(content)] == [delta]


def test_fields_of_a_call_are_told_with_its_beginning_or_when_they_come() -> None:
    called = Part(PartKind.CALL, call=1, id="c", name="f")
    fields = replace(data(CALL_EXTRA, {"id": "x", **_SIGNED}), call=1)
    begun = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert [one["delta"]["tool_calls"] for one in told(fields, called)] == [
        [{"index": 1, **begun, **_SIGNED}]
    ]
    assert [one["delta"]["tool_calls"] for one in told(called, fields)] == [
        [{"index": 1, **begun}],
        [{"index": 1, **_SIGNED}],
    ]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_call_has_the_type_of_its_server_wherever_that_comes(place: int) -> None:
    contents: list[Content] = [
        Part(PartKind.CALL, id="c", name="f"),
        Part(PartKind.ARGUMENTS, "{"),
        Part(PartKind.ARGUMENTS, "}"),
    ]
    contents.insert(place, data(CALL_EXTRA, {"call_type": "builtin_function"}))
    whole = WholeChoice(0)
    for choice in told(*contents):
        whole.add(choice)
    called = {"name": "f", "arguments": "{}"}
    assert whole.to_object()["message"]["tool_calls"] == [
        {"id": "c", "type": "builtin_function", "function": called}
    ]


def test_what_no_protocol_can_tell_says_nothing() -> None:
    assert told(data(EXTRA, {"role": "user"}), data(EXTRA, 7), data(CALL_EXTRA, [])) == []


def test_more_of_a_call_is_told_by_its_type() -> None:
    _, more = told(Part(PartKind.CALL, "custom", id="c", name="f"), Part(PartKind.ARGUMENTS, "S"))
    assert more["delta"] == {"tool_calls": [{"index": 0, "custom": {"input": "S"}}]}


def test_log_probabilities_are_told_with_their_text() -> None:
    a, b = {"token": "a"}, {"token": "b"}
    choices = told(
        data("logprobs", {"content": [a]}),
        Part(PartKind.REASONING, "Hm"),
        data("logprobs", {"content": [b], "refusal": None}),
        "b",
    )
    assert [one["logprobs"] for one in choices] == [
        {"content": [a], "refusal": None},
        {"content": [b], "refusal": None},
    ]


def test_log_probabilities_without_a_text_come_at_the_end() -> None:
    (last,) = told(data("logprobs", {"content": [7]}, 1))
    assert (last["index"], last["delta"], last["logprobs"]["content"]) == (
        1,
        {"role": "assistant"},
        [7],
    )


def test_a_later_choice_begins_once_and_says_how_it_ended() -> None:
    deltas = CompletionDeltas()
    later = [Part(PartKind.TEXT, text, 1) for text in "bc"]
    contents: list[Content] = ["a", *later, data("finish", "length", 1)]
    choices = [deltas.take(content) for content in contents]
    assert [(one["delta"], one["finish_reason"]) for one in choices if one and one["index"]] == [
        ({"role": "assistant", "content": "b"}, None),
        ({"content": "c"}, None),
        ({}, "length"),
    ]
    assert [one["index"] for one in deltas.last("stop")] == [0]


def test_a_source_without_an_address_is_none_there() -> None:
    deltas = CompletionDeltas([data("source", {"title": "of a page"})])
    assert deltas.last("stop") == [choice_object(0, {}, "stop")]


def test_sources_are_told_at_the_end_of_their_choice() -> None:
    deltas = CompletionDeltas()
    a, b = ({"url": f"https://{name}.example", "title": name} for name in "ab")
    for source in (a, b | {"end_index": 4}):
        assert deltas.take(data("source", source)) is None
    deltas.take(Part(PartKind.TEXT, "x", 1))
    assert deltas.take(data("source", a, 1)) is None
    ended = deltas.take(data("finish", "length", 1))
    assert ended is not None
    assert ended["delta"] == {"annotations": [citation(a, 0)]}
    (last,) = deltas.last("stop")
    assert (last["finish_reason"], last["delta"]) == (
        "stop",
        {"annotations": [citation(a, 0), citation(b, 4)]},
    )


# -- what a client puts together -------------------------------------------------------------------


def added(events: list[ServerSentEvent]) -> list[Choice]:
    """What the chunks add up to."""
    choices = {0: WholeChoice(0)}
    for event in events:
        if event.data == b"[DONE]":
            continue
        chunk = orjson.loads(event.data)
        CompletionChunk.model_validate(chunk)
        for choice in chunk["choices"]:
            choices.setdefault(choice["index"], WholeChoice(choice["index"])).add(choice)
    return [choices[index].to_object() for index in sorted(choices)]


@given(CONTENTS, st.integers(1, 40), st.data())
def test_wherever_a_client_comes_back_it_has_the_whole_answer(
    contents: list[Content], most: int, drawn: st.DataObject
) -> None:
    stream = new_stream(HandTurnedClock())
    stream.log.extend(contents)
    stream.complete("stop", None)
    objects = CompletionObjects("rsp_1", 7, "demo", include_usage=False, tools=False)
    whole = objects.whole(stream)["choices"]
    events = list[ServerSentEvent]()
    encoder = ChunkEncoder(objects, stream, ResumePoint(0), most)
    while data := encoder.take():
        events += events_of(data)
    assert added(events) == whole
    place = drawn.draw(st.integers(0, len(events) - 1))
    if (last := events[place].id) is not None:
        again = ChunkEncoder(objects, stream, ResumePoint(int(last) + 1), most)
        rest = list[ServerSentEvent]()
        while data := again.take():
            rest += events_of(data)
        assert added(events[: place + 1] + rest) == whole
