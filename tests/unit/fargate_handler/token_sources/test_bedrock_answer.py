from __future__ import annotations

from typing import Any

import pytest

from fargate_handler.token_sources.bedrock_answer import BedrockAnswer
from fargate_handler.token_sources.port import ModelFinish
from stream_core.log.marked_text import AnswerPart, CallPart
from stream_core.log.marked_text_reader import MarkedTextReader
from stream_core.protocol.errors import UpstreamFailed
from stream_core.protocol.messages import Usage
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink


def delta(**content: object) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": content}}


def stop(reason: str) -> dict[str, Any]:
    return {"messageStop": {"stopReason": reason}}


USAGE = {
    "metadata": {
        "usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7},
        "metrics": {"latencyMs": 9},
    }
}


def finished(*events: dict[str, Any], marked: bool = False) -> tuple[list[str], ModelFinish]:
    sink = RecordingSink()
    answer = BedrockAnswer(sink, marked=marked)
    for event in events:
        answer.take(event)
    return sink.tokens, answer.finish()


def test_texts_reason_and_usage_are_gathered_and_everything_else_is_passed_over() -> None:
    tokens, finish = finished(
        {"messageStart": {"role": "assistant"}},
        delta(reasoningContent={"text": "hmm"}),
        delta(text="Grö"),
        delta(text=""),
        delta(text="ße"),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        delta(citation={"title": "x"}),
        delta(SDK_UNKNOWN_MEMBER={"name": "tomorrow"}),
        stop("end_turn"),
        USAGE,
    )
    assert tokens == ["Grö", "ße"]
    assert finish == ModelFinish("stop", Usage(prompt_tokens=3, completion_tokens=4))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "stop"),
        ("a reason of tomorrow", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_how_the_model_ended(reason: str, expected: str) -> None:
    assert finished(stop(reason))[1] == ModelFinish(expected, None)  # type: ignore[arg-type]


def start(block: int, call_id: str, name: str) -> dict[str, Any]:
    return {
        "contentBlockStart": {
            "contentBlockIndex": block,
            "start": {"toolUse": {"toolUseId": call_id, "name": name}},
        }
    }


def arguments(block: int, text: str) -> dict[str, Any]:
    return {
        "contentBlockDelta": {"contentBlockIndex": block, "delta": {"toolUse": {"input": text}}}
    }


def ends(block: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": block}}


_CALLING = (
    {"messageStart": {"role": "assistant"}},
    delta(text="I add."),
    ends(0),
    start(1, "tooluse_1", "add"),
    arguments(1, ""),
    arguments(1, '{"a": '),
    arguments(1, "1}"),
    ends(1),
    start(2, "tooluse_2", "now"),
    arguments(2, ""),
    ends(2),
    stop("tool_use"),
    USAGE,
)


def test_what_the_model_calls_is_part_of_the_answer() -> None:
    tokens, finish = finished(*_CALLING, marked=True)
    calls = (CallPart(0, '{"a": 1}', "tooluse_1", "add"), CallPart(1, "{}", "tooluse_2", "now"))
    assert MarkedTextReader().read("".join(tokens)) == (AnswerPart("I add.", calls),)
    assert finish == ModelFinish("tool_calls", Usage(prompt_tokens=3, completion_tokens=4))


def test_a_reader_of_text_alone_is_given_no_calls() -> None:
    tokens, finish = finished(*_CALLING)
    assert (tokens, finish.finish_reason) == (["I add."], "stop")


def test_reasoning_is_marked_and_else_a_sign_of_life() -> None:
    events = (
        delta(reasoningContent={"text": "Hm"}),
        delta(reasoningContent={"signature": "s"}),
        delta(reasoningContent={"redactedContent": b"x"}),
        delta(text="Yes"),
        stop("end_turn"),
    )
    tokens, _ = finished(*events, marked=True)
    assert MarkedTextReader().read("".join(tokens)) == (
        AnswerPart("Yes", asides={"reasoning_content": "Hm"}),
    )
    sink = RecordingSink()
    answer = BedrockAnswer(sink)
    for event in events[:3]:
        answer.take(event)
    assert (sink.tokens, sink.signs_of_life) == ([], 3)


def test_what_was_cached_is_part_of_the_prompt() -> None:
    counted = {
        "inputTokens": 3,
        "outputTokens": 4,
        "cacheReadInputTokens": 20,
        "cacheWriteInputTokens": 100,
    }
    _, finish = finished(stop("end_turn"), {"metadata": {"usage": counted}})
    assert finish.usage == Usage(prompt_tokens=123, completion_tokens=4, cached_tokens=20)


@pytest.mark.parametrize(
    "events",
    [
        [arguments(1, "{}")],
        [start(1, "", "")],
        [start(1, "c", "add"), arguments(2, "{}")],
        [start(1, "c", "add"), {"contentBlockStop": {}}],
        [start(1, "c", "a" * 5000)],
        [start(block, "c", "add") for block in range(129)],
    ],
)
def test_a_call_that_cannot_be_one_fails(events: list[dict[str, Any]]) -> None:
    with pytest.raises(UpstreamFailed) as failed:
        finished(*events, marked=True)
    assert "cannot be read" in failed.value.message


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_stopped_answer_keeps_its_text_and_says_why_it_ended(reason: str) -> None:
    tokens, finish = finished(delta(text="x"), stop(reason), USAGE)
    assert (tokens, finish.finish_reason) == (["x"], "content_filter")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [delta(text="x")],
        [USAGE],
        [stop("malformed_model_output")],
        [stop("malformed_tool_use")],
    ],
)
def test_an_answer_that_is_not_whole_failed(events: list[dict[str, Any]]) -> None:
    with pytest.raises(UpstreamFailed):
        finished(*events)


@pytest.mark.parametrize(
    "event",
    [
        {"contentBlockDelta": {}},
        {"contentBlockDelta": {"delta": None}},
        delta(text=7),
        {"messageStop": {}},
        {"metadata": {}},
        {"metadata": {"usage": {"inputTokens": 1}}},
        {"metadata": {"usage": {"inputTokens": "many", "outputTokens": 1}}},
    ],
)
def test_an_event_that_lacks_something_fails(event: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed) as failed:
        finished(event)
    assert "cannot be read" in failed.value.message


def test_what_the_sink_raises_passes_through() -> None:
    answer = BedrockAnswer(RecordingSink(refuses_after=0))
    with pytest.raises(Full):
        answer.take(delta(text="x"))
