from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.token_sources.bedrock_answer import BedrockAnswer
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.entries import EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.returned_fields import detail_of
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


def finished(*events: dict[str, Any]) -> tuple[list[Content], ModelFinish]:
    """What is pushed for these events, joined, and the end."""
    sink = RecordingSink()
    answer = BedrockAnswer(sink)
    for event in events:
        answer.take(event)
    finish = answer.finish()
    return sink.answer, finish


def test_texts_reason_and_usage_are_gathered_and_everything_else_is_passed_over() -> None:
    answer, finish = finished(
        {"messageStart": {"role": "assistant"}},
        delta(text="Grö"),
        delta(text=""),
        delta(text="ße"),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        delta(SDK_UNKNOWN_MEMBER={"name": "tomorrow"}),
        stop("end_turn"),
        USAGE,
    )
    assert answer == ["Größe"]
    assert finish == ModelFinish("stop", Usage(prompt_tokens=3, completion_tokens=4))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
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
    answer, finish = finished(*_CALLING)
    assert answer == [
        "I add.",
        Part(PartKind.CALL, call=0, id="tooluse_1", name="add"),
        Part(PartKind.ARGUMENTS, '{"a": 1}', call=0),
        Part(PartKind.CALL_END, call=0),
        Part(PartKind.CALL, call=1, id="tooluse_2", name="now"),
        Part(PartKind.ARGUMENTS, "{}", call=1),
        Part(PartKind.CALL_END, call=1),
    ]
    assert finish == ModelFinish("tool_calls", Usage(prompt_tokens=3, completion_tokens=4))


def test_a_call_that_was_cut_ends_with_the_answer() -> None:
    answer, _ = finished(start(0, "tooluse_1", "add"), arguments(0, "{"), stop("max_tokens"))
    assert answer[-1] == Part(PartKind.CALL_END)


def test_reasoning_and_its_signature() -> None:
    answer, _ = finished(
        delta(reasoningContent={"text": "H"}),
        delta(reasoningContent={"text": "m"}),
        delta(reasoningContent={"signature": "s"}),
        delta(text="Yes"),
        stop("end_turn"),
    )
    entry = {"type": "reasoning.text", "index": 0, "format": "bedrock"}
    detail = detail_of("reasoning_details", entry, "text")
    assert answer == [
        Part(PartKind.REASONING, "Hm", id=detail, name="reasoning_content"),
        _details(entry | {"signature": "s"}),
        "Yes",
    ]


def test_reasoning_that_is_encrypted_is_kept_for_the_model() -> None:
    answer, _ = finished(delta(reasoningContent={"redactedContent": b"\x00\xff"}), stop("end_turn"))
    entry = {"type": "reasoning.encrypted", "index": 0, "format": "bedrock", "data": "AP8="}
    assert answer == [_details(entry)]


def _details(entry: dict[str, Any]) -> Part:
    return Part(PartKind.DATA, orjson.dumps({"reasoning_details": [entry]}).decode(), name=EXTRA)


def test_what_says_nothing_is_a_sign_of_life() -> None:
    sink = RecordingSink()
    answer = BedrockAnswer(sink)
    answer.take(delta(reasoningContent={"text": ""}))
    answer.take(delta(text=""))
    assert (sink.contents, sink.signs_of_life) == ([], 2)


@pytest.mark.parametrize(
    ("citation", "source"),
    [
        (
            {"title": "A", "location": {"web": {"url": "https://a.example", "domain": "a"}}},
            '{"url":"https://a.example","title":"A"}',
        ),
        ({"source": "s3://b/c", "title": "C"}, '{"url":"s3://b/c","title":"C"}'),
        ({"title": "D", "location": {"documentPage": {"start": 1}}}, '{"title":"D"}'),
    ],
)
def test_what_the_answer_cites(citation: dict[str, Any], source: str) -> None:
    answer, _ = finished(delta(text="Yes"), delta(citation=citation), stop("end_turn"))
    assert answer == ["Yes", Part(PartKind.DATA, source, name="source")]


def test_what_was_cached_is_part_of_the_prompt() -> None:
    counted = {
        "inputTokens": 3,
        "outputTokens": 4,
        "cacheReadInputTokens": 20,
        "cacheWriteInputTokens": 100,
    }
    _, finish = finished(stop("end_turn"), {"metadata": {"usage": counted}})
    assert finish == ModelFinish(
        "stop",
        Usage(prompt_tokens=123, completion_tokens=4, cached_tokens=20),
        cache_written=100,
    )


@pytest.mark.parametrize(
    "counted",
    [
        {"inputTokens": 1},
        {"inputTokens": "many", "outputTokens": 1},
        {"inputTokens": 1, "outputTokens": 1, "cacheReadInputTokens": -3},
        {"inputTokens": 1, "outputTokens": 10**12 + 1},
    ],
)
def test_counts_that_are_none_take_nothing_of_the_answer_with_them(counted: dict[str, Any]) -> None:
    answer, finish = finished(delta(text="x"), stop("end_turn"), {"metadata": {"usage": counted}})
    assert (answer, finish) == (["x"], ModelFinish("stop", None))


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
        finished(*events)
    assert "cannot be read" in failed.value.message


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_stopped_answer_keeps_its_text_and_says_why_it_ended(reason: str) -> None:
    answer, finish = finished(delta(text="x"), stop(reason), USAGE)
    assert (answer, finish.finish_reason) == (["x"], "content_filter")


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
