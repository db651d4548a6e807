from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.inference.llm_v1 import inference_pb2 as wire
from fargate_handler.inference.messages import finish_message, finish_of, message_of, request_of
from fargate_handler.orchestrator.whole_request import WholeRequest
from fargate_handler.token_sources.port import ModelFinish, ModelRequest
from stream_core.protocol.messages import Usage
from tests.unit.fargate_handler.orchestrator.test_whole_request import REQUESTS, TEXT


@given(REQUESTS, TEXT, TEXT, st.integers(1, 100), st.booleans())
def test_a_worker_is_asked_what_the_handler_was(
    asked: WholeRequest, prefix: str, key: str, attempt: int, marked: bool
) -> None:
    marked = marked or bool(asked.options.tools)
    request = ModelRequest("demo", asked.turns, attempt, prefix, key, asked.options, marked=marked)
    sent = wire.StreamRequest.FromString(message_of(request).SerializeToString())
    assert request_of(sent) == request


def test_a_handler_from_before_there_were_marks_beside_calls_wants_calls_marked() -> None:
    options = wire.Options(tools=['{"type": "function"}'])
    assert request_of(wire.StreamRequest(options=options)).marked
    assert not request_of(wire.StreamRequest()).marked


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


def test_a_reason_of_tomorrow_is_an_end() -> None:
    assert finish_of(wire.Finish(reason="tired")) == ModelFinish("stop", None)
