from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.messages import (
    event_messages,
    finish_message,
    finish_of,
    message_of,
    part_of,
    request_of,
)
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.entries import Content, NotAPart
from tests.unit.fargate_handler.orchestrator.test_incoming_message import REQUESTS, TEXT
from tests.unit.stream_core.log.contents import CONTENTS


@given(REQUESTS, TEXT, TEXT, st.integers(1, 100))
def test_a_worker_is_asked_what_the_handler_was(
    asked: WholeRequest, prefix: str, key: str, attempt: int
) -> None:
    request = ModelRequest("demo", asked.turns, attempt, prefix, key, asked.options)
    sent = wire.StreamRequest.FromString(message_of(request).SerializeToString())
    assert request_of(sent) == request


@given(CONTENTS)
def test_what_a_model_gives_arrives_in_its_order(contents: list[Content]) -> None:
    arrived = list[Content]()
    for event in event_messages(contents):
        sent = wire.StreamEvent.FromString(event.SerializeToString())
        arrived += [*sent.tokens.text, *map(part_of, sent.parts.part)]
    assert arrived == contents


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"kind": 99},
        {"kind": "KIND_RESULT", "text": "3"},
        {"kind": "KIND_CALL", "id": "c"},
        {"kind": "KIND_TEXT", "text": "x", "choice": 128},
        {"kind": "KIND_DATA", "text": "{", "name": "source"},
        {"kind": "KIND_DATA", "text": "{}"},
    ],
)
def test_what_is_no_part_is_told(part: dict[str, Any]) -> None:
    with pytest.raises(NotAPart):
        part_of(wire.Part(**part))


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(prompt_tokens=0, completion_tokens=7),
        Usage(prompt_tokens=5, completion_tokens=7, cached_tokens=0, reasoning_tokens=3),
    ],
)
@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter"])
def test_how_the_model_ended(reason: str, usage: Usage | None) -> None:
    finish = ModelFinish(reason, usage)  # type: ignore[arg-type]
    assert finish_of(wire.Finish.FromString(finish_message(finish).SerializeToString())) == finish


def test_what_was_written_to_the_prompt_s_cache() -> None:
    finish = ModelFinish("stop", Usage(9, 1, cached_tokens=2), cache_written=4)
    assert finish_of(wire.Finish.FromString(finish_message(finish).SerializeToString())) == finish
    usage = wire.Usage(prompt_tokens=9, completion_tokens=1, cache_write_tokens=2**62)
    assert finish_of(wire.Finish(reason="stop", usage=usage)).cache_written == 0


def test_a_reason_of_tomorrow_is_an_end() -> None:
    assert finish_of(wire.Finish(reason="tired")) == ModelFinish("stop", None)


def test_a_reason_that_says_that_the_model_failed_is_an_error() -> None:
    with pytest.raises(UpstreamFailed):
        finish_of(wire.Finish(reason="abort"))


def test_impossible_counts_of_a_worker_are_none() -> None:
    usage = wire.Usage(prompt_tokens=2**62, completion_tokens=1)
    assert finish_of(wire.Finish(reason="stop", usage=usage)) == ModelFinish("stop", None)
