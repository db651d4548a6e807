from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import CHUNK_EXTRA, Content, Part, PartKind
from evenflow.stream_core.protocols.openai_chat.bodies import Completion, CompletionChunk
from evenflow.stream_core.protocols.openai_chat.deltas import CompletionDeltas, choice_object
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream


def objects(**options: bool) -> CompletionObjects:
    return CompletionObjects(
        "rsp_1", 7, "demo", **{"include_usage": False, "tools": False} | options
    )


def ended(*contents: Content, usage: Usage | None = None) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    stream.log.extend(contents)
    stream.complete("stop", usage)
    return stream


def chunk_of(event: bytes) -> dict[str, Any]:
    head, data, *_ = event.split(b"\n")
    assert head == b"id: 3"
    chunk: dict[str, Any] = orjson.loads(data.removeprefix(b"data: "))
    CompletionChunk.model_validate(chunk)
    return chunk


def test_a_chunk_of_plain_text() -> None:
    chunk = objects().chunk(b"3", [choice_object(0, {"content": "Yes"})])
    assert chunk == objects().delta("Yes", 3, 3)
    assert chunk == (
        b"id: 3\ndata: "
        b'{"object":"chat.completion.chunk","id":"chatcmpl-1","created":7,"model":"demo","choices":[{"index":0,"delta":{"content":"Yes"},"logprobs":null,"finish_reason":null}]}\n\n'
    )


def test_with_the_usage_each_chunk_has_its_place() -> None:
    chunk = chunk_of(objects(include_usage=True).chunk(b"3", [choice_object(1, {})]))
    assert (chunk["usage"], chunk["choices"][0]["index"]) == (None, 1)


def test_the_choices_that_did_not_say_how_they_ended_end_as_the_answer() -> None:
    deltas = CompletionDeltas([Part(PartKind.TEXT, "c", 2)])
    last = objects().finish(b"3", ended("x"), deltas.last("stop"), deltas.unread)
    first, *_ = last.partition(b"\n\n")
    assert [(one["index"], one["finish_reason"]) for one in chunk_of(first)["choices"]] == [
        (0, "stop"),
        (2, "stop"),
    ]


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (None, None),
        (
            Usage(prompt_tokens=1, completion_tokens=2),
            {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        ),
        (
            Usage(prompt_tokens=1, completion_tokens=2, cached_tokens=0, reasoning_tokens=1),
            {
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        ),
    ],
)
def test_what_was_counted(usage: Usage | None, told: dict[str, Any] | None) -> None:
    whole = objects().whole(ended("x", usage=usage))
    assert Completion.model_validate(whole)
    assert ("usage" in whole, whole.get("usage")) == (told is not None, told)


def test_a_whole_answer_of_a_choice_that_says_nothing() -> None:
    end = Part(PartKind.DATA, '"length"', 1, name="finish")
    whole = objects().whole(ended(Part(PartKind.TEXT, "b", 1), end))
    told = [
        (one["index"], one["message"]["content"], one["finish_reason"]) for one in whole["choices"]
    ]
    assert told == [(0, "", "stop"), (1, "b", "length")]


def test_a_whole_answer_that_is_a_refusal() -> None:
    whole = objects().whole(ended(Part(PartKind.REFUSAL, "I cannot.")))
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": "I cannot."}


_BESIDE = Part(
    PartKind.DATA,
    orjson.dumps(
        {
            "chunk": {"provider": "P", "id": "x", "choices": 7},
            "choice": {"stop_reason": "###", "index": 7},
            "usage": {
                "cost": 0.5,
                "prompt_tokens": 7,
                "prompt_tokens_details": {"audio_tokens": 1},
            },
        }
    ).decode(),
    name=CHUNK_EXTRA,
)


def test_further_fields_of_the_server_are_told_in_their_place() -> None:
    usage = Usage(1, 2, cached_tokens=0)
    stream = ended("a", _BESIDE, usage=usage)
    whole = objects().whole(stream)
    assert Completion.model_validate(whole)
    (choice,) = whole["choices"]
    counts = {
        "cost": 0.5,
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_tokens_details": {"audio_tokens": 1, "cached_tokens": 0},
    }
    assert (whole["id"], whole["provider"], whole["usage"]) == ("chatcmpl-1", "P", counts)
    assert (choice["index"], choice["stop_reason"]) == (0, "###")
    deltas = CompletionDeltas(["a"])
    beside = deltas.take(_BESIDE)
    assert beside == {"stop_reason": "###", **choice_object(0, {})}
    last = deltas.last("stop")
    streamed = objects(include_usage=True).finish(b"3", stream, last, deltas.unread)
    ending, counted, _ = streamed.split(b"\n\n", 2)
    assert (chunk_of(ending)["provider"], chunk_of(ending)["id"]) == ("P", "chatcmpl-1")
    assert chunk_of(counted)["usage"] == counts


def test_a_whole_answer_with_all_that_there_is() -> None:
    source = '{"url":"https://a.example","title":"A","start_index":0,"end_index":3}'
    probable = [
        Part(PartKind.DATA, f'{{"content":[{{"token":"{token}"}}]}}', name="logprobs")
        for token in "ab"
    ]
    whole = objects().whole(
        ended(
            Part(PartKind.REASONING, "Hm", name="reasoning"),
            probable[0],
            "a",
            probable[1],
            "b",
            Part(PartKind.DATA, source, name="source"),
            Part(PartKind.CALL, id="c", name="f"),
            Part(PartKind.ARGUMENTS, "{"),
            Part(PartKind.ARGUMENTS, "}"),
            Part(PartKind.CALL_END),
        )
    )
    assert Completion.model_validate(whole)
    (choice,) = whole["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
        "reasoning": "Hm",
        "annotations": [{"type": "url_citation", "url_citation": orjson.loads(source)}],
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}], "refusal": None}
