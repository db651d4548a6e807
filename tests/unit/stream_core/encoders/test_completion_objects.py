from __future__ import annotations

from typing import Any

import orjson
import pytest

from stream_core.encoders.completion_objects import CompletionObjects
from stream_core.log.marked_text import AnswerPart, CallPart, MarkedTextWriter
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.completion_bodies import Completion, CompletionChunk
from stream_core.protocol.messages import Usage
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.test_response_stream import new_stream


def objects(**options: bool) -> CompletionObjects:
    return CompletionObjects(
        "rsp_1", 7, "demo", **{"include_usage": False, "tools": False} | options
    )


def ended(text: str, usage: Usage | None = None) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    stream.push(text)
    stream.complete("stop", usage)
    return stream


def chunk_of(event: bytes) -> dict[str, Any]:
    head, data, *_ = event.split(b"\n")
    assert head == b"id: 3"
    chunk: dict[str, Any] = orjson.loads(data.removeprefix(b"data: "))
    CompletionChunk.model_validate(chunk)
    return chunk


def test_a_chunk_of_plain_text() -> None:
    assert objects().parts(b"3", [AnswerPart("Yes")]) == (
        b"id: 3\ndata: "
        b'{"object":"chat.completion.chunk","id":"chatcmpl-1","created":7,"model":"demo","choices":[{"index":0,"delta":{"content":"Yes"},"logprobs":null,"finish_reason":null}]}\n\n'
    )


def test_one_chunk_has_all_that_is_new() -> None:
    parts = [
        AnswerPart(
            "a",
            (CallPart(0, "{", "c", "f"), CallPart(1, "S", type="custom")),
            asides={"reasoning": "Hm"},
        ),
        AnswerPart(
            "b", choice=1, begins=True, end="length", logprobs={"content": [{"token": "b"}]}
        ),
    ]
    one, other = chunk_of(objects(include_usage=True).parts(b"3", parts))["choices"]
    assert one["delta"] == {
        "content": "a",
        "reasoning": "Hm",
        "tool_calls": [
            {
                "index": 0,
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": "{"},
            },
            {"index": 1, "custom": {"input": "S"}},
        ],
    }
    assert other == {
        "index": 1,
        "delta": {"role": "assistant", "content": "b"},
        "logprobs": {"content": [{"token": "b"}], "refusal": None},
        "finish_reason": "length",
    }


def test_the_choices_that_did_not_say_how_they_ended_end_as_the_answer() -> None:
    first, *_ = objects().finish(b"3", ended("x"), (0, 2)).partition(b"\n\n")
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
    whole = objects().whole(ended("x", usage))
    assert Completion.model_validate(whole)
    assert ("usage" in whole, whole.get("usage")) == (told is not None, told)


def test_a_whole_answer_of_a_choice_that_says_nothing() -> None:
    writer = MarkedTextWriter()
    whole = objects().whole(ended(writer.text("b", 1) + writer.end("length", 1)))
    told = [
        (one["index"], one["message"]["content"], one["finish_reason"]) for one in whole["choices"]
    ]
    assert told == [(0, "", "stop"), (1, "b", "length")]


def test_a_whole_answer_that_is_a_refusal() -> None:
    whole = objects().whole(ended(MarkedTextWriter().aside("refusal", "I cannot.")))
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": "I cannot."}
