from __future__ import annotations

from typing import Any

import pytest

from fargate_handler.token_sources.bedrock_answer import BedrockAnswer
from fargate_handler.token_sources.port import ModelFinish
from stream_core.errors import ModelRefused, UpstreamFailed
from stream_core.messages import Usage
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink


def delta(**content: object) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": content}}


def stop(reason: str) -> dict[str, Any]:
    return {"messageStop": {"stopReason": reason}}


USAGE = {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 9}}}


def finished(*events: dict[str, Any]) -> tuple[list[str], ModelFinish]:
    sink = RecordingSink()
    answer = BedrockAnswer(sink)
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


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_stopped_answer_is_a_refusal(reason: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        finished(delta(text="x"), stop(reason), USAGE)
    assert refused.value.code == "model_refused"


@pytest.mark.parametrize(
    "events", [[], [delta(text="x")], [USAGE], [stop("malformed_model_output")], [stop("malformed_tool_use")]]
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
