from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.gateway.ai_sdk.messages import turns_of
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.ai_sdk.bodies import CHAT_REQUEST
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.session.conversation import ToolCall, Turn

_CALL = {"type": "tool-add", "toolCallId": "call_1", "input": {"a": 1}}
_MADE = ToolCall("call_1", "add", '{"a":1}')


def _turns(*messages: tuple[str, list[dict[str, Any]]]) -> tuple[Turn, ...]:
    body = {"id": "c1", "messages": [{"role": role, "parts": parts} for role, parts in messages]}
    return turns_of(parse(CHAT_REQUEST, orjson.dumps(body)).messages)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(media_type: str, url: str) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "url": url, "filename": "one"}


def test_texts_are_turns() -> None:
    assert _turns(
        ("system", [_text("Be brief.")]),
        ("user", [_text("a"), {"type": "data-place", "data": 1}, _text("b")]),
        ("assistant", [{"type": "step-start"}, _text("c"), {"type": "source-url", "url": "u"}]),
    ) == (Turn("system", "Be brief."), Turn("user", "ab"), Turn("assistant", "c"))


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (
            _file("image/png", "https://example.org/a.png"),
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ),
        (
            _file("audio/mpeg", "data:audio/mpeg;base64,AAAA"),
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
        (
            _file("application/pdf", "data:application/pdf;base64,AAAA"),
            {
                "type": "file",
                "file": {"filename": "one", "file_data": "data:application/pdf;base64,AAAA"},
            },
        ),
    ],
)
def test_files_are_parts(file: dict[str, Any], part: dict[str, Any]) -> None:
    (turn,) = _turns(("user", [_text("a"), file]))
    assert (turn.text, turn.parts) == ("a", ({"type": "text", "text": "a"}, part))


def test_a_file_by_its_address_is_refused_unless_it_is_an_image() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _turns(("user", [_file("application/pdf", "https://example.org/a.pdf")]))
    assert (refused.value.code, refused.value.param) == (
        "unsupported_value",
        "messages.0.parts.0.url",
    )


def test_each_step_has_its_calls_and_their_results() -> None:
    done = {"state": "output-available", "output": {"sum": 3}}
    dynamic = {"type": "dynamic-tool", "toolName": "ask", "toolCallId": "call_2"}
    failed = {"state": "output-error", "errorText": "it broke"}
    assert _turns(
        (
            "assistant",
            [
                *({"type": "step-start"}, _text("a"), _CALL | done, dynamic | failed),
                *({"type": "step-start"}, _text("b")),
            ],
        ),
    ) == (
        Turn("assistant", "a", (_MADE, ToolCall("call_2", "ask", "{}"))),
        Turn("tool", '{"sum":3}', tool_call_id="call_1"),
        Turn("tool", "it broke", tool_call_id="call_2"),
        Turn("assistant", "b"),
    )


def test_a_call_that_was_not_allowed_says_so() -> None:
    denied = {"state": "approval-responded", "approval": {"id": "1", "approved": False}}
    _, told = _turns(("assistant", [_CALL | denied]))
    assert told == Turn("tool", "The user did not allow this call.", tool_call_id="call_1")


def test_a_call_without_a_result_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _turns(("assistant", [_text("a"), _CALL | {"state": "input-available"}]))
    assert refused.value.param == "messages.0.parts.1"


@pytest.mark.parametrize("state", ["input-available", "approval-requested", "input-streaming"])
def test_a_call_that_the_user_has_left_behind_is_left_out(state: str) -> None:
    assert _turns(
        ("assistant", [_text("a"), _CALL | {"state": state}]), ("user", [_text("b")])
    ) == (
        Turn("assistant", "a"),
        Turn("user", "b"),
    )


def test_reasoning_is_given_back_in_its_field() -> None:
    ours = {"providerMetadata": {"evenflow": {"field": "reasoning_content"}}}
    thought = {"type": "reasoning", "text": "x"}
    assert _turns(("assistant", [thought | ours, thought, _text("a")])) == (
        Turn("assistant", "a", extra={"reasoning_content": "x"}),
    )


def test_what_the_user_said_within_an_answer_is_a_turn() -> None:
    steering = {"type": "steering-message", "id": "s1", "parts": [_text("faster")]}
    assert _turns(("assistant", [_text("a"), steering, _text("b")])) == (
        Turn("assistant", "a"),
        Turn("user", "faster"),
        Turn("assistant", "b"),
    )


def test_a_message_without_anything_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _turns(("user", [{"type": "data-place", "data": 1}]))
    assert refused.value.param == "messages.0.parts"
