from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint, slice_of
from evenflow.stream_core.protocols.ag_ui.encoder import AgUiEvents, empty_run
from tests.unit.stream_core.encoding.test_block_encoder import answer, push
from tests.unit.stream_core.protocols.readers import events_of

_CALL = Part(PartKind.CALL, call=0, id="call_1", name="add")
_END = Part(PartKind.CALL_END, call=0)
_RESULT = Part(PartKind.RESULT, "3", id="call_1", name="add")
_RUN = {"threadId": "t1", "runId": "r1"}
_USER = {"id": "u1", "role": "user", "content": "?"}
_MESSAGE = "rsp_1"


def _encoder(
    stream: ResponseStream, next_index: int = 0, messages: Sequence[dict[str, Any]] = (_USER,)
) -> BlockEncoder:
    said = slice_of(stream.log.entries[:next_index], 0).current
    events = AgUiEvents("t1", "r1", _MESSAGE, list(messages), said)
    return BlockEncoder(events, stream, ResumePoint(next_index), 100)


def _heard(data: bytes) -> list[dict[str, Any]]:
    """The events without their metadata, of which the ids tell the same."""
    heard = []
    for event in events_of(data):
        told = orjson.loads(event.data)
        cursor = told.pop("metadata", {}).get("evenflow", {}).get("cursor")
        assert cursor == event.id
        heard.append(told)
    return heard


def _told(encoder: BlockEncoder) -> list[dict[str, Any]]:
    data = encoder.opening
    while more := encoder.take():
        data += more
    return _heard(data)


def _said(*contents: Content) -> list[dict[str, Any]]:
    """The events between the run's beginning and its end."""
    stream = answer(*contents)
    stream.complete("stop", None)
    return _told(_encoder(stream))[1:-1]


def _types(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_run_has_its_message_and_its_usage() -> None:
    stream = answer("a")
    stream.complete("stop", Usage(3, 4, cached_tokens=1))
    assert _told(_encoder(stream)) == [
        {"type": "RUN_STARTED", **_RUN},
        {"type": "TEXT_MESSAGE_START", "messageId": _MESSAGE, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": _MESSAGE, "delta": "a"},
        {"type": "TEXT_MESSAGE_END", "messageId": _MESSAGE},
        {
            "type": "RUN_FINISHED",
            **_RUN,
            "outcome": {"type": "success"},
            "usage": [
                {"inputTokens": 3, "outputTokens": 4, "cachedInputTokens": 1, "totalTokens": 7}
            ],
        },
    ]


def test_who_joins_in_the_middle_is_told_what_is_open() -> None:
    stream = answer(
        "a", _CALL, Part(PartKind.ARGUMENTS, '{"a":'), Part(PartKind.ARGUMENTS, "1}"), _END
    )
    started, opened, *rest = _told(_encoder(stream, 3))
    assert started["type"] == "RUN_STARTED"
    assert opened == {
        "type": "TOOL_CALL_START",
        "toolCallId": "call_1",
        "toolCallName": "add",
        "parentMessageId": _MESSAGE,
    }
    assert _types(rest) == ["TOOL_CALL_ARGS", "TOOL_CALL_END"]


def test_reasoning_is_a_span_with_a_message_that_keeps_what_its_server_needs_back() -> None:
    events = _said(
        Part(PartKind.REASONING, "x", name="reasoning"), Part(PartKind.DATA, '{"s":1}', name=EXTRA)
    )
    assert _types(events) == [
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_ENCRYPTED_VALUE", "REASONING_MESSAGE_END", "REASONING_END"),
    ]
    assert events[3]["entityId"] == events[0]["messageId"]
    assert events[3]["encryptedValue"] == 'evenflow:{"field":"reasoning","extra":{"s":1}}'


def test_reasoning_in_the_usual_field_needs_nothing_kept() -> None:
    events = _said(Part(PartKind.REASONING, "x", name="reasoning_content"))
    assert "REASONING_ENCRYPTED_VALUE" not in _types(events)


def test_a_call_keeps_what_its_server_needs_back() -> None:
    fields = Part(PartKind.DATA, '{"s":1}', name=CALL_EXTRA)
    _, kept, _ = _said(fields, _CALL, _END)
    assert kept == {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "tool-call",
        "entityId": "call_1",
        "encryptedValue": 'evenflow:{"extra":{"s":1}}',
    }


def test_what_follows_a_result_is_another_message() -> None:
    events = _said("a", _CALL, _END, _RESULT, "b")
    messages = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    (called,) = (event for event in events if event["type"] == "TOOL_CALL_START")
    (result,) = (event for event in events if event["type"] == "TOOL_CALL_RESULT")
    assert (messages, called["parentMessageId"]) == ([_MESSAGE, f"{_MESSAGE}.1"], _MESSAGE)
    assert (result["toolCallId"], result["content"], result["role"]) == ("call_1", "3", "tool")


def test_who_comes_back_behind_a_result_goes_on_in_that_message() -> None:
    stream = answer("a", _CALL, _END, _RESULT, "b", "c")
    opened = _told(_encoder(stream, 5))[1]
    assert opened == {
        "type": "TEXT_MESSAGE_START",
        "messageId": f"{_MESSAGE}.1",
        "role": "assistant",
    }


@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_calls_that_nobody_has_answered_are_pending(reason: str) -> None:
    other = Part(PartKind.CALL, call=1, id="call_2", name="add")
    stream = answer(_CALL, _END, _RESULT, other, Part(PartKind.CALL_END, call=1))
    stream.complete(reason, None)
    outcome = _told(_encoder(stream))[-1]["outcome"]
    assert outcome == {"type": "success", "pendingToolCallIds": ["call_2"]}


@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_where_every_call_has_its_result_none_is_pending(reason: str) -> None:
    stream = answer(_CALL, _END, _RESULT, "3")
    stream.complete(reason, None)
    assert _told(_encoder(stream))[-1]["outcome"] == {"type": "success"}


def test_an_empty_run_begins_and_ends() -> None:
    assert _heard(empty_run("t1", "r1")) == [
        {"type": "RUN_STARTED", **_RUN},
        {"type": "RUN_FINISHED", **_RUN, "outcome": {"type": "success"}},
    ]


def test_data_is_state_or_custom() -> None:
    patch = '[{"op":"add","path":"/a","value":1}]'
    assert _said(
        Part(PartKind.DATA, '{"a":1}', name="state"),
        Part(PartKind.DATA, patch, name="state_delta"),
        Part(PartKind.DATA, '{"url":"u"}', name="source"),
        Part(PartKind.DATA, '"stop"', name="finish"),
    ) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]},
        {"type": "CUSTOM", "name": "source", "value": {"url": "u"}},
    ]


def test_a_restart_ends_what_is_open_and_tells_what_stands() -> None:
    stream = answer(Part(PartKind.REASONING, "x"))
    encoder = _encoder(stream)
    _told(encoder)
    stream.next_attempt()
    stream.restart()
    push(stream, "b")
    *ends, snapshot, start, _ = _heard(encoder.take())
    assert _types(ends) == ["REASONING_MESSAGE_END", "REASONING_END"]
    emptied = {"id": f"{_MESSAGE}.reasoning.0", "role": "reasoning", "content": ""}
    assert snapshot == {"type": "MESSAGES_SNAPSHOT", "messages": [_USER, emptied]}
    assert start["type"] == "TEXT_MESSAGE_START"


def test_who_has_a_part_and_begins_anew_drops_it() -> None:
    part = {"id": _MESSAGE, "role": "assistant", "content": "a"}
    thought = {"id": "rsp_0.reasoning.0", "role": "reasoning", "content": "of before"}
    opened = _heard(_encoder(answer("ab"), messages=(thought, _USER, part)).opening)
    assert opened[1] == {"type": "MESSAGES_SNAPSHOT", "messages": [thought, _USER]}
    assert len(_heard(_encoder(answer("ab"), 1, (_USER, part)).opening)) == 2


def test_a_stopped_run_is_cancelled() -> None:
    stream = answer("a")
    stream.cancel()
    assert _told(_encoder(stream))[-1]["outcome"] == {"type": "cancelled"}


def test_an_error_has_its_words_and_code() -> None:
    failed = AgUiEvents("t1", "r1", _MESSAGE, []).failure(
        UpstreamFailed("it broke", code="upstream_failed")
    )
    assert _heard(failed) == [
        {"type": "RUN_ERROR", "message": "it broke", "code": "upstream_failed"}
    ]
