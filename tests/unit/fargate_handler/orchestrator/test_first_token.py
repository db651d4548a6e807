"""The observer of a response that was taken over is told of this task's own first token."""

from __future__ import annotations

from evenflow.fargate_handler.orchestrator.token_sinks import FirstTokenSink
from evenflow.stream_core.log.entries import Part, PartKind
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_THOUGHT = Part(PartKind.REASONING, "Hm", name="reasoning")


def test_the_first_token_is_told_once_and_all_go_on() -> None:
    sink, told = RecordingSink(), list[int]()
    first = FirstTokenSink(sink, lambda: told.append(len(sink.tokens)))
    for token in ("a", "b", "c"):
        first.push(token)
    assert (sink.tokens, told) == (["a", "b", "c"], [0])


def test_a_part_may_be_the_first() -> None:
    sink, told = RecordingSink(), list[int]()
    first = FirstTokenSink(sink, lambda: told.append(1))
    first.push_part(_THOUGHT)
    first.push("b")
    assert (sink.contents, told) == ([_THOUGHT, "b"], [1])
