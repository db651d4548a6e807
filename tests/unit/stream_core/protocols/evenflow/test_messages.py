from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import (
    CLIENT_MESSAGE,
    POSTED_MESSAGE,
    SERVER_MESSAGE,
    ChatMessageFrame,
    Ping,
    PostedMessage,
    ResponseAck,
    ResponseCancel,
    ResponseContinue,
    ResponseCredit,
    ResponseDelta,
    ResponsePause,
    ResponseResume,
    ToolCancel,
    ToolResult,
    parse,
)

ERROR = {
    "type": "rate_limit_error",
    "code": "rate_limited",
    "message": "slowly",
    "retry_after_ms": 5,
}
LIMITS = {
    "message_bytes": 65536,
    "messages_in_flight": 4,
    "batch_window_ms": 50,
    "heartbeat_seconds": 30.0,
    "pong_timeout_seconds": 60.0,
}
OF_RESPONSE = {"session_id": "ses_1", "response_id": "rsp_1"}

FROM_CLIENT: list[tuple[dict[str, Any], type[BaseModel]]] = [
    (
        {
            "type": "chat.message",
            "message_id": "m2",
            "previous_message_id": "m1",
            "payload": {"text": "hi"},
        },
        ChatMessageFrame,
    ),
    ({"type": "response.resume", "response_id": "rsp_1", "after": -1}, ResponseResume),
    ({"type": "response.resume", "response_id": "rsp_1", "after": 7, "epoch": 3}, ResponseResume),
    ({"type": "response.pause", "response_id": "rsp_1"}, ResponsePause),
    ({"type": "response.continue", "response_id": "rsp_1"}, ResponseContinue),
    ({"type": "response.cancel", "response_id": "rsp_1"}, ResponseCancel),
    (
        {"type": "tool.result", "response_id": "rsp_1", "call_id": "call_1", "text": ""},
        ToolResult,
    ),
    ({"type": "tool.cancel", "response_id": "rsp_1", "call_id": "call_1"}, ToolCancel),
    ({"type": "response.ack", "response_id": "rsp_1", "index": 7}, ResponseAck),
    (
        {"type": "chat.message", "message_id": "m1", "payload": {"text": "hi"}, "credit": 0},
        ChatMessageFrame,
    ),
    ({"type": "response.resume", "response_id": "rsp_1", "after": 7, "credit": 5}, ResponseResume),
    ({"type": "response.credit", "response_id": "rsp_1", "n": 5}, ResponseCredit),
    ({"type": "ping"}, Ping),
]
FROM_SERVER: list[dict[str, Any]] = [
    {
        "type": "session.ready",
        "session_id": "ses_1",
        "protocol": "evenflow.v1",
        "expires_at": "2026-11-21T09:00:00Z",
        "last_message_id": None,
        "limits": LIMITS,
        "responses": [
            {"response_id": "rsp_1", "message_id": "m1", "status": "streaming", "next_index": 3}
        ],
    },
    {
        "type": "chat.response.start",
        **OF_RESPONSE,
        "message_id": "m1",
        "status": "queued",
        "next_index": 0,
        "duplicate": False,
    },
    {
        "type": "chat.response.start",
        **OF_RESPONSE,
        "message_id": "m1",
        "status": "queued",
        "next_index": 0,
        "duplicate": True,
        "stream": 0,
    },
    {
        "type": "chat.response.start",
        **OF_RESPONSE,
        "message_id": "m1",
        "status": "streaming",
        "next_index": 7,
        "duplicate": True,
        "epoch": 2,
        "via": "peer",
    },
    {"type": "chat.response.delta", **OF_RESPONSE, "delta": "x", "index": 4},
    {"type": "chat.response.delta", **OF_RESPONSE, "delta": "xyz", "index": 4, "from": 2},
    {"type": "chat.response.delta", **OF_RESPONSE, "delta": "xyz", "index": 4, "from": 0},
    {"type": "chat.response.restarted", **OF_RESPONSE, "from_index": -1, "attempt": 2, "index": 5},
    {
        "type": "chat.response.restarted",
        **OF_RESPONSE,
        "from_index": -1,
        "attempt": 2,
        "index": -1,
        "epoch": 3,
    },
    {
        "type": "chat.response.completed",
        **OF_RESPONSE,
        "message_id": "m1",
        "finish_reason": "stop",
        "last_index": -1,
        "usage": None,
        "degraded": False,
    },
    {
        "type": "chat.response.completed",
        **OF_RESPONSE,
        "message_id": "m1",
        "finish_reason": "cancelled",
        "last_index": 5,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0},
        "degraded": True,
    },
    {
        "type": "chat.response.error",
        **OF_RESPONSE,
        "message_id": "m1",
        "last_index": 3,
        "error": ERROR,
    },
    {"type": "lag", **OF_RESPONSE, "behind_deltas": 64, "behind_ms": 10_000, "last_index": 17},
    {"type": "throttle", "retry_after_ms": 5, "error": ERROR},
    {"type": "throttle", "retry_after_ms": 5, "message_id": "m1", "error": ERROR},
    {"type": "throttle", "retry_after_ms": 5, "response_id": "rsp_1", "error": ERROR},
    {"type": "system.busy", "retry_after_ms": 2000, "message_id": "m1", "error": ERROR},
    {"type": "reconnect", "reason": "leaving", "after_ms": 0},
    {"type": "pong"},
    {"type": "error", "error": ERROR},
    {"type": "error", "error": ERROR, "response_id": "rsp_1"},
]


def refusal(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        parse(CLIENT_MESSAGE, body)
    assert refused.value.status == 400
    return refused.value


@pytest.mark.parametrize(
    ("frame", "model"),
    FROM_CLIENT,
    ids=[f"{n} {frame['type']}" for n, (frame, _) in enumerate(FROM_CLIENT)],
)
def test_each_message_of_a_client_parses(frame: dict[str, Any], model: type[BaseModel]) -> None:
    parsed = parse(CLIENT_MESSAGE, json.dumps(frame).encode())
    assert type(parsed) is model
    assert parsed.model_dump(exclude_unset=True) == frame


@pytest.mark.parametrize(
    "frame", FROM_SERVER, ids=[f"{n} {frame['type']}" for n, frame in enumerate(FROM_SERVER)]
)
def test_each_message_of_the_server_is_written_as_the_protocol_says(frame: dict[str, Any]) -> None:
    message = SERVER_MESSAGE.validate_json(json.dumps(frame))
    assert json.loads(message.to_json()) == frame


def test_the_fields_of_a_delta_stand_in_the_order_of_the_contract() -> None:
    delta = ResponseDelta.model_validate(
        {"type": "chat.response.delta", **OF_RESPONSE, "delta": "xyz", "index": 4, "from": 2}
    )
    assert delta.to_json() == (
        b'{"type":"chat.response.delta","session_id":"ses_1","response_id":"rsp_1",'
        b'"delta":"xyz","index":4,"from":2}'
    )


def test_a_first_message_may_leave_out_the_one_before() -> None:
    message = parse(POSTED_MESSAGE, b'{"message_id":"m1","payload":{"text":"hi"}}')
    assert message == PostedMessage(
        message_id="m1", previous_message_id=None, payload=message.payload
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ('"x":1,"payload":{"text":"hi"}', "x"),
        ('"payload":{"text":"hi","servce_class":"batch"}', "payload.servce_class"),
        ('"payload":{"text":"hi","service_class":"nonsense"}', "payload.service_class"),
        ('"payload":{"text":"hi","slo_ttft_ms":0}', "payload.slo_ttft_ms"),
        ('"payload":{"text":"hi","tools":[]}', "payload.tools"),
        ('"payload":{"text":"hi","tools":[{"function":{"name":"f"}}]}', "payload.tools.0.type"),
        ('"payload":{"text":"hi","messages":[{"role":"user","content":"hi"}]}', "payload.text"),
        ('"payload":{"messages":[{"role":"assistant","content":"hi"}]}', "payload.messages"),
        ('"payload":{"messages":[{"role":"user","content":""}]}', "payload.messages"),
        ('"payload":{"messages":[]}', "payload.messages"),
    ],
)
def test_what_would_not_be_acted_upon_is_refused(fields: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(POSTED_MESSAGE, f'{{"message_id":"m1",{fields}}}'.encode())
    assert (refused.value.code, refused.value.param) == ("invalid_field", param)
    assert param in refused.value.message


def test_the_question_is_the_text_or_the_last_message() -> None:
    body = b'{"message_id":"m1","payload":{"messages":[{"role":"system","content":"Be brief."},'
    body += b'{"role":"user","content":[{"type":"text","text":"What is "},'
    body += b'{"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"it?"}]}]}}'
    assert parse(POSTED_MESSAGE, body).payload.question == "What is it?"
    message = parse(POSTED_MESSAGE, b'{"message_id":"m","payload":{"text":"hi"}}')
    assert message.payload.question == "hi"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ('{"payload":{"text":"hi"}}', "message_id"),
        ('{"message_id":"","payload":{"text":"hi"}}', "message_id"),
        ('{"message_id":"%s","payload":{"text":"hi"}}' % ("m" * 129), "message_id"),
        ('{"message_id":5,"payload":{"text":"hi"}}', "message_id"),
        ('{"message_id":null,"payload":{"text":"hi"}}', "message_id"),
        (
            '{"message_id":"m","previous_message_id":"","payload":{"text":"hi"}}',
            "previous_message_id",
        ),
        (
            '{"message_id":"m","previous_message_id":1,"payload":{"text":"hi"}}',
            "previous_message_id",
        ),
        ('{"message_id":"m"}', "payload"),
        ('{"message_id":"m","payload":"hi"}', "payload"),
        ('{"message_id":"m","payload":[]}', "payload"),
        ('{"message_id":"m","payload":{}}', "payload.text"),
        ('{"message_id":"m","payload":{"text":""}}', "payload.text"),
        ('{"message_id":"m","payload":{"text":1}}', "payload.text"),
        ('{"message_id":"m","payload":{"text":null}}', "payload.text"),
    ],
)
def test_a_wrong_field_is_named_alike_over_http_and_websocket(body: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as over_http:
        parse(POSTED_MESSAGE, body.encode())
    over_websocket = refusal(('{"type":"chat.message",' + body[1:]).encode())
    for refused in (over_http.value, over_websocket):
        assert (refused.code, refused.param) == ("invalid_field", param)
        assert param in refused.message


@pytest.mark.parametrize("value", ["-2", "1.5", '"1"', "null", "true", "[]"])
@pytest.mark.parametrize(
    ("kind", "field"), [("response.resume", "after"), ("response.ack", "index")]
)
def test_an_index_is_a_whole_number_from_minus_one_on(kind: str, field: str, value: str) -> None:
    refused = refusal(f'{{"type":"{kind}","response_id":"r","{field}":{value}}}'.encode())
    assert (refused.code, refused.param) == ("invalid_field", field)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "9.99e99", '"1"', "null", "true"])
def test_credit_is_a_whole_number_from_one_on(value: str) -> None:
    refused = refusal(f'{{"type":"response.credit","response_id":"r","n":{value}}}'.encode())
    assert (refused.code, refused.param) == ("invalid_field", "n")


def test_an_unknown_type_is_told_the_known_ones() -> None:
    refused = refusal(b'{"type":"chat.massage"}')
    assert (refused.code, refused.param) == ("unknown_type", "type")
    assert "chat.message" in refused.message


def test_a_lone_surrogate_is_no_text() -> None:
    assert (
        refusal(b'{"type":"chat.message","message_id":"\\ud800","payload":{"text":"a"}}').code
        == "invalid_json"
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_no_json_at_all_breaks_the_parser(value: object) -> None:
    body = json.dumps(value).encode()
    assert refusal(body).code in ("invalid_json", "unknown_type", "invalid_field")
    with pytest.raises(InvalidRequest) as refused:
        parse(POSTED_MESSAGE, body)
    assert refused.value.code in ("invalid_json", "invalid_field")


@given(st.text(min_size=1), st.text(min_size=1, max_size=128))
def test_any_text_arrives_as_it_was_sent(text: str, message_id: str) -> None:
    body = json.dumps(
        {"message_id": message_id, "payload": {"text": text}}, ensure_ascii=False
    ).encode()
    message = parse(POSTED_MESSAGE, body)
    assert (message.payload.text, message.message_id) == (text, message_id)


def test_messages_cannot_be_changed() -> None:
    message = parse(POSTED_MESSAGE, b'{"message_id":"m1","payload":{"text":"hi"}}')
    with pytest.raises(ValueError, match="frozen"):
        setattr(message, "message_id", "m2")  # noqa: B010 - mypy knows that it can't be set
