from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import (
    ChatMessageFrame,
    ErrorFrame,
    LagNotice,
    MessagePayload,
    Ping,
    Reconnect,
    ResponseCancel,
    ResponseCompleted,
    ResponseContinue,
    ResponseCredit,
    ResponseFailed,
    ResponsePause,
    ResponseRestarted,
    ResponseResume,
    ResponseStart,
    ServerMessage,
    SystemBusy,
    Throttle,
    ToolCancel,
    ToolResult,
)
from evenflow.stream_core.protocols.realtime.dialect import (
    REALTIME_CLIENT_MESSAGE,
    REALTIME_SERVER_MESSAGE,
    RealtimeDialect,
)

DIALECT = RealtimeDialect()
ERROR = {"type": "rate_limit_error", "code": "rate_limited", "message": "slowly"}
OF_RESPONSE = {"session_id": "ses_1", "response_id": "rsp_1"}

READ: list[tuple[dict[str, Any], BaseModel]] = [
    (
        {"type": "start", "id": "m1", "text": "hi"},
        ChatMessageFrame(
            type="chat.message",
            message_id="m1",
            previous_message_id=None,
            payload=MessagePayload(text="hi"),
        ),
    ),
    (
        {"type": "start", "id": "m2", "previous": "m1", "text": "hi", "credit": 0},
        ChatMessageFrame(
            type="chat.message",
            message_id="m2",
            previous_message_id="m1",
            payload=MessagePayload(text="hi"),
            credit=0,
        ),
    ),
    (
        {"type": "pause", "response_id": "rsp_1"},
        ResponsePause(type="response.pause", response_id="rsp_1"),
    ),
    (
        {"type": "resume", "response_id": "rsp_1"},
        ResponseContinue(type="response.continue", response_id="rsp_1"),
    ),
    (
        {"type": "resume", "response_id": "rsp_1", "after": -1},
        ResponseResume(type="response.resume", response_id="rsp_1", after=-1),
    ),
    (
        {"type": "resume", "response_id": "rsp_1", "after": 7, "epoch": 2, "credit": 5},
        ResponseResume(type="response.resume", response_id="rsp_1", after=7, epoch=2, credit=5),
    ),
    (
        {"type": "cancel", "response_id": "rsp_1"},
        ResponseCancel(type="response.cancel", response_id="rsp_1"),
    ),
    (
        {"type": "credit", "response_id": "rsp_1", "n": 3},
        ResponseCredit(type="response.credit", response_id="rsp_1", n=3),
    ),
    (
        {"type": "tool.result", "response_id": "rsp_1", "call_id": "c1", "text": "7"},
        ToolResult(type="tool.result", response_id="rsp_1", call_id="c1", text="7"),
    ),
    (
        {"type": "tool.cancel", "response_id": "rsp_1", "call_id": "c1"},
        ToolCancel(type="tool.cancel", response_id="rsp_1", call_id="c1"),
    ),
    ({"type": "ping"}, Ping(type="ping")),
]


@pytest.mark.parametrize(
    ("frame", "message"), READ, ids=[f"{n} {frame['type']}" for n, (frame, _) in enumerate(READ)]
)
def test_each_frame_is_a_message_of_the_session(frame: dict[str, Any], message: BaseModel) -> None:
    assert DIALECT.read(json.dumps(frame).encode()) == message
    assert REALTIME_CLIENT_MESSAGE.validate_python(frame).model_dump(exclude_unset=True) == frame


REFUSED: list[tuple[str, str, str | None]] = [
    ("{", "invalid_json", None),
    ("[]", "invalid_field", None),
    ("{}", "unknown_type", "type"),
    ('{"type":"chat.message","message_id":"m1","payload":{"text":"x"}}', "unknown_type", "type"),
    ('{"type":"token"}', "unknown_type", "type"),
    ('{"type":"start","text":"x"}', "invalid_field", "id"),
    ('{"type":"start","id":"m1"}', "invalid_field", "text"),
    ('{"type":"start","id":"m1","text":""}', "invalid_field", "text"),
    ('{"type":"start","id":"m1","text":"x","previous":5}', "invalid_field", "previous"),
    ('{"type":"start","id":"m1","text":"x","credit":-1}', "invalid_field", "credit"),
    ('{"type":"start","id":"m1","text":"x","credit":9.99e99}', "invalid_field", "credit"),
    ('{"type":"start","id":"m1","text":"x","request_id":"r"}', "invalid_field", "request_id"),
    (
        '{"type":"start","id":"m1","text":"x","service_class":"nonsense"}',
        "invalid_field",
        "service_class",
    ),
    ('{"type":"start","id":"m1","text":"x","slo_ttft_ms":-1}', "invalid_field", "slo_ttft_ms"),
    ('{"type":"start","id":"m1","text":"x","payload":{}}', "invalid_field", "payload"),
    ('{"type":"start","id":"m1","messages":[{"role":"user"}]}', "invalid_field", "messages"),
    ('{"type":"pause","response_id":"r","after":1}', "invalid_field", "after"),
    ('{"type":"tool.result","response_id":"r","call_id":"c"}', "invalid_field", "text"),
    ('{"type":"tool.result","response_id":"r","call_id":"c","text":7}', "invalid_field", "text"),
    ('{"type":"tool.cancel","response_id":"r","call_id":""}', "invalid_field", "call_id"),
    ('{"type":"pause"}', "invalid_field", "response_id"),
    ('{"type":"cancel","response_id":7}', "invalid_field", "response_id"),
    ('{"type":"resume","response_id":"r","after":-2}', "invalid_field", "after"),
    ('{"type":"resume","response_id":"r","credit":5}', "invalid_field", "after"),
    ('{"type":"resume","response_id":"r","epoch":1}', "invalid_field", "after"),
    ('{"type":"credit","response_id":"r"}', "invalid_field", "n"),
    *(
        (f'{{"type":"credit","response_id":"r","n":{n}}}', "invalid_field", "n")
        for n in ("0", "-1", "1.5", "9.99e99", '"5"', "true", "null", "[]")
    ),
    ('{"type":"credit","response_id":"r","n":NaN}', "invalid_field", "n"),
]


@pytest.mark.parametrize(("body", "code", "param"), REFUSED)
def test_what_is_not_understood_says_which_field(body: str, code: str, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        DIALECT.read(body.encode())
    assert (refused.value.code, refused.value.param) == (code, param)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["type", "id", "n", "credit", "response_id"]), x)
        ),
    )
)
def test_no_json_at_all_breaks_the_parser(value: object) -> None:
    with pytest.raises(InvalidRequest):
        DIALECT.read(json.dumps(value).encode())


WRITTEN: list[tuple[ServerMessage, dict[str, Any]]] = [
    (
        ResponseStart(
            type="chat.response.start",
            **OF_RESPONSE,
            message_id="m1",
            status="queued",
            next_index=0,
            duplicate=False,
        ),
        {
            "type": "started",
            "id": "m1",
            "response_id": "rsp_1",
            "status": "queued",
            "next_index": 0,
            "duplicate": False,
        },
    ),
    (
        ResponseStart(
            type="chat.response.start",
            **OF_RESPONSE,
            message_id="m1",
            status="streaming",
            next_index=8,
            duplicate=True,
            epoch=2,
            via="peer",
        ),
        {
            "type": "started",
            "id": "m1",
            "response_id": "rsp_1",
            "status": "streaming",
            "next_index": 8,
            "duplicate": True,
            "epoch": 2,
            "via": "peer",
        },
    ),
    (
        ResponseRestarted(
            type="chat.response.restarted",
            **OF_RESPONSE,
            from_index=-1,
            attempt=2,
            index=5,
            epoch=3,
        ),
        {
            "type": "restarted",
            "response_id": "rsp_1",
            "from_index": -1,
            "attempt": 2,
            "index": 5,
            "epoch": 3,
        },
    ),
    (
        ResponseCompleted(
            type="chat.response.completed",
            **OF_RESPONSE,
            message_id="m1",
            finish_reason="length",
            last_index=4,
            usage=Usage(prompt_tokens=1, completion_tokens=9),
            degraded=True,
        ),
        {
            "type": "final",
            "id": "m1",
            "response_id": "rsp_1",
            "finish_reason": "length",
            "last_index": 4,
            "usage": {"prompt_tokens": 1, "completion_tokens": 9},
            "degraded": True,
        },
    ),
    (
        ResponseFailed(
            type="chat.response.error",
            **OF_RESPONSE,
            message_id="m1",
            last_index=2,
            error={**ERROR, "code": "x"},
        ),
        {
            "type": "final",
            "id": "m1",
            "response_id": "rsp_1",
            "finish_reason": "error",
            "last_index": 2,
            "usage": None,
            "degraded": False,
            "error": {**ERROR, "code": "x"},
        },
    ),
    (
        Throttle(type="throttle", retry_after_ms=5, message_id="m1", error=ERROR),
        {"type": "error", "id": "m1", "error": {**ERROR, "retry_after_ms": 5}},
    ),
    (
        Throttle(type="throttle", retry_after_ms=5, response_id="rsp_1", error=ERROR),
        {"type": "error", "response_id": "rsp_1", "error": {**ERROR, "retry_after_ms": 5}},
    ),
    (
        SystemBusy(type="system.busy", retry_after_ms=7, message_id="m1", error=ERROR),
        {"type": "error", "id": "m1", "error": {**ERROR, "retry_after_ms": 7}},
    ),
    (
        ErrorFrame(type="error", error={**ERROR, "param": "previous_message_id"}, message_id="m1"),
        {"type": "error", "id": "m1", "error": {**ERROR, "param": "previous"}},
    ),
    (
        ErrorFrame(type="error", error={**ERROR, "param": "payload.tools.0.type"}, message_id="m1"),
        {"type": "error", "id": "m1", "error": {**ERROR, "param": "tools.0.type"}},
    ),
    (
        ErrorFrame(type="error", error={**ERROR, "param": "after"}, response_id="rsp_1"),
        {"type": "error", "response_id": "rsp_1", "error": {**ERROR, "param": "after"}},
    ),
    (
        LagNotice(type="lag", **OF_RESPONSE, behind_deltas=64, behind_ms=10_000, last_index=17),
        {"type": "lag", **OF_RESPONSE, "behind_deltas": 64, "behind_ms": 10_000, "last_index": 17},
    ),
    (
        Reconnect(type="reconnect", reason="leaving", after_ms=0),
        {"type": "reconnect", "reason": "leaving", "after_ms": 0},
    ),
]


@pytest.mark.parametrize(
    ("message", "frame"),
    WRITTEN,
    ids=[f"{n} {message.type}" for n, (message, _) in enumerate(WRITTEN)],
)
def test_each_message_of_the_session_is_a_frame(
    message: ServerMessage, frame: dict[str, Any]
) -> None:
    assert json.loads(DIALECT.write(message)) == frame
    assert json.loads(REALTIME_SERVER_MESSAGE.validate_python(frame).to_json()) == frame
