"""What clients of the Responses API are told of each kind of content."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import TooSlow, UpstreamFailed
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.blocks import SealingBlocks
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResponseState, ResumePoint
from evenflow.stream_core.protocols.openai_responses.bodies import ResponseBody
from evenflow.stream_core.protocols.openai_responses.encoder import JsonLines, ResponseEvents
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.protocols.readers import PUBLIC

_ECHOED: dict[str, Any] = {
    "model": "demo",
    "instructions": None,
    "previous_response_id": None,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
_SOURCE = Part(PartKind.DATA, '{"url":"https://a.example/","title":"A"}', name="source")
_LOGPROB = Part(PartKind.DATA, '{"content":[{"token":"a","logprob":-1.5}]}', name="logprobs")
_SIGNATURE = Part(PartKind.DATA, '{"extra_content":{"a":1}}', name=EXTRA)
_OF_CALL = Part(PartKind.DATA, '{"extra_content":{"b":1}}', name=CALL_EXTRA)
_CALL = Part(PartKind.CALL, id="call_1", name="f")
_ALL: list[Content] = [
    Part(PartKind.REASONING, "so", name="reasoning_content"),
    _SIGNATURE,
    _LOGPROB,
    "a",
    _SOURCE,
    "b",
    _OF_CALL,
    _CALL,
    Part(PartKind.ARGUMENTS, '{"x":'),
    Part(PartKind.ARGUMENTS, "1}"),
    Part(PartKind.CALL_END),
    Part(PartKind.CALL, "custom", call=1, id="call_2", name="g"),
    Part(PartKind.ARGUMENTS, "go", call=1),
    _SIGNATURE,
    Part(PartKind.CALL_END, call=1),
    Part(PartKind.REFUSAL, "no"),
]


def _stream(contents: list[Content]) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    stream.log.extend(contents)
    return stream


def _about() -> ResponseObject:
    return ResponseObject(PUBLIC, 7, _ECHOED)


def _told(stream: ResponseStream, **options: Any) -> list[dict[str, Any]]:
    events = ResponseEvents(_about(), JsonLines(), **options)
    encoder = BlockEncoder(events, stream, ResumePoint(0), 10_000, SealingBlocks)
    lines = encoder.opening
    while data := encoder.take():
        lines += data
    return [orjson.loads(line) for line in lines.splitlines()]


def _completed(contents: list[Content], reason: Any = "stop") -> ResponseStream:
    stream = _stream(contents)
    stream.complete(reason, Usage(3, 4, 1, 2))
    return stream


def test_every_event_is_one_of_openai_s() -> None:
    from openai.types.responses import ResponseStreamEvent

    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    told = _told(_completed(_ALL))
    for event in told:
        assert known.validate_python(event).type == event["type"]
    numbers = [event["sequence_number"] for event in told]
    assert numbers == sorted(set(numbers))


def test_the_last_event_has_what_the_others_told() -> None:
    told = _told(_completed(_ALL))
    whole = told[-1]["response"]
    assert whole["output"] == [
        event["item"] for event in told if event["type"] == "response.output_item.done"
    ]
    assert whole == _about().at_present(_completed(_ALL))
    assert [item["type"] for item in whole["output"]] == [
        *("reasoning", "message", "reasoning", "function_call", "custom_tool_call", "reasoning"),
        "message",
    ]
    thought, message, of_call, call, custom, fields, refusal = whole["output"]
    assert of_call["encrypted_content"] == 'evenflow:{"call":{"extra_content":{"b":1}}}'
    kept = 'evenflow:{"field":"reasoning_content","extra":{"extra_content":{"a":1}}}'
    assert thought["encrypted_content"] == kept
    assert call["extra_content"] == {"b": 1}
    sealed = 'evenflow:{"extra":{"extra_content":{"a":1}}}'
    assert (fields["summary"], fields["encrypted_content"]) == ([], sealed)
    assert message["content"][0]["text"] == "ab"
    assert message["content"][0]["annotations"][0]["url"] == "https://a.example/"
    assert message["content"][0]["logprobs"] == [
        {"token": "a", "logprob": -1.5, "bytes": [97], "top_logprobs": []}
    ]
    assert (call["arguments"], custom["input"]) == ('{"x":1}', "go")
    assert refusal["content"] == [{"type": "refusal", "refusal": "no"}]


def test_the_object_is_openai_s_and_the_document_s() -> None:
    whole = _about().at_present(_completed(_ALL))
    from openai.types.responses import Response

    assert TypeAdapter(Response).validate_python(whole).output_text == "ab"
    assert ResponseBody.model_validate(whole).status == "completed"


@pytest.mark.parametrize(
    ("reason", "details"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_an_answer_that_is_cut_off_is_incomplete(reason: str, details: str) -> None:
    last = _told(_completed(["a"], reason))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": details}
    assert last["response"]["output"][0]["status"] == "incomplete"


class TestFailures:
    def _failed(self, contents: list[Content]) -> ResponseStream:
        stream = _stream(contents)
        stream.fail(UpstreamFailed("the model failed", code="upstream_failed").to_object())
        return stream

    def test_a_failure_behind_text_is_an_event_with_the_text(self) -> None:
        last = _told(self._failed(["a"]), raises=True)[-1]
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert last["response"]["error"] == {
            "code": "upstream_failed",
            "message": "the model failed",
        }
        assert last["response"]["output"][0]["content"][0]["text"] == "a"

    def test_one_before_any_text_is_the_request_s_or_an_event(self) -> None:
        stream = self._failed([])
        with pytest.raises(UpstreamFailed):
            _told(stream, raises=True)
        assert _told(stream)[-1]["type"] == "response.failed"

    def test_a_cancelled_response_says_so(self) -> None:
        stream = _stream(["a"])
        stream.cancel()
        assert stream.state is ResponseState.CANCELLED
        last = _told(stream)[-1]
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")

    def test_who_is_too_slow_is_told_that_the_stream_ends_and_not_the_response(self) -> None:
        events = ResponseEvents(_about(), JsonLines())
        told = orjson.loads(events.failure(TooSlow("too slow", code="too_slow")))
        assert (told["type"], told["code"], told["error"]["code"]) == (
            *("error", "too_slow", "too_slow"),
        )

    def test_a_restart_with_another_text_fails_the_response(self) -> None:
        stream = _completed(["ab"])
        events = ResponseEvents(_about(), JsonLines())
        encoder = BlockEncoder(events, _stream(["ab"]), ResumePoint(0), 100)
        encoder.take()
        error = UpstreamFailed("it began again", code="response_restarted")
        told = orjson.loads(encoder.failure(error))
        assert stream.log.closed
        assert told["response"]["error"]["code"] == "response_restarted"
