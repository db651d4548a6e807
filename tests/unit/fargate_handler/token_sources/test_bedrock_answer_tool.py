from __future__ import annotations

from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.bedrock_answer import AnswerTool, BedrockAnswer
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.entries import Content, Part, PartKind
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


def begin(place: int, name: str) -> dict[str, Any]:
    return {
        "contentBlockStart": {
            "contentBlockIndex": place,
            "start": {"toolUse": {"toolUseId": "t1", "name": name}},
        }
    }


def arguments(place: int, text: str) -> dict[str, Any]:
    return {
        "contentBlockDelta": {"contentBlockIndex": place, "delta": {"toolUse": {"input": text}}}
    }


def text(place: int, said: str) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": place, "delta": {"text": said}}}


def end(place: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": place}}


STOP = {"messageStop": {"stopReason": "tool_use"}}


def answered(
    *events: dict[str, Any], name: str | None = "person"
) -> tuple[list[Content], ModelFinish]:
    sink = RecordingSink()
    answer, tool = BedrockAnswer(sink), AnswerTool(name)
    for event in events:
        if (told := tool.rewrite(event)) is not None:
            answer.take(told)
    return sink.answer, answer.finish()


def test_the_arguments_are_the_answer() -> None:
    events = (
        text(0, "Sure: "),
        end(0),
        begin(1, "person"),
        arguments(1, ""),
        arguments(1, '{"a'),
        arguments(1, '":1}'),
    )
    assert answered(*events, end(1), STOP) == (['{"a":1}'], ModelFinish("stop", None))


def test_another_tool_is_called_as_ever() -> None:
    said, finish = answered(begin(0, "add"), arguments(0, "{}"), end(0), STOP)
    assert said == [
        Part(PartKind.CALL, id="t1", name="add"),
        Part(PartKind.ARGUMENTS, "{}"),
        Part(PartKind.CALL_END),
    ]
    assert finish.finish_reason == "tool_calls"


def test_without_one_nothing_is_rewritten() -> None:
    assert answered(text(0, "x"), end(0), {"messageStop": {"stopReason": "end_turn"}}, name=None)[
        0
    ] == ["x"]


def test_arguments_that_were_cut_are_told_as_that() -> None:
    events = (
        begin(0, "person"),
        arguments(0, '{"a'),
        {"messageStop": {"stopReason": "max_tokens"}},
    )
    assert answered(*events) == (['{"a'], ModelFinish("length", None))


def test_an_event_that_lacks_its_arguments_is_told() -> None:
    broken = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {}}}
    with pytest.raises(UpstreamFailed):
        answered(begin(0, "person"), broken)
