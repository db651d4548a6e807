from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.gateway.ag_ui.messages import offered, turns_of
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.ag_ui.bodies import RUN_REQUEST, RunTool
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.session.conversation import ToolCall, Turn

_CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
_MADE = ToolCall("call_1", "add", "{}")


def _turns(
    *messages: dict[str, Any], context: tuple[tuple[str, str], ...] = ()
) -> tuple[Turn, ...]:
    numbered = [{"id": f"m{place}"} | message for place, message in enumerate(messages)]
    told = [{"description": name, "value": value} for name, value in context]
    body = {"threadId": "t1", "runId": "r1", "messages": numbered, "context": told}
    asked = parse(RUN_REQUEST, orjson.dumps(body))
    return turns_of(asked.messages, asked.context)


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_conversation_stands_behind_its_context() -> None:
    assert _turns(
        {"role": "developer", "content": "Be brief."},
        _user("a"),
        {"role": "reasoning", "content": "x"},
        {"role": "activity", "activityType": "plan", "content": {}},
        {"role": "assistant", "content": "b", "toolCalls": [_CALL]},
        {"role": "tool", "toolCallId": "call_1", "content": "3"},
        context=(("City", "Zürich"), ("Page", "7")),
    ) == (
        Turn("system", "City: Zürich\nPage: 7"),
        Turn("system", "Be brief."),
        Turn("user", "a"),
        Turn("assistant", "b", (_MADE,), extra={"reasoning_content": "x"}),
        Turn("tool", "3", tool_call_id="call_1"),
    )


def test_reasoning_stands_beside_the_message_that_follows_or_the_one_before() -> None:
    called = {"role": "assistant", "toolCalls": [_CALL]}
    result = {"role": "tool", "toolCallId": "call_1", "content": "3"}
    beside = Turn("assistant", "", (_MADE,), extra={"reasoning_content": "xy"})
    answered = Turn("tool", "3", tool_call_id="call_1")
    thoughts = [{"role": "reasoning", "content": text} for text in "xy"]
    assert _turns(_user("a"), *thoughts, called, result)[1:] == (beside, answered)
    assert _turns(_user("a"), called, *thoughts, result)[1:] == (beside, answered)
    assert _turns(_user("a"), *thoughts, _user("b")) == (Turn("user", "a"), Turn("user", "b"))


def test_reasoning_goes_back_in_the_field_in_which_it_came() -> None:
    sealed = {"role": "reasoning", "content": "x", "encryptedValue": "evenflow:reasoning"}
    foreign = {"role": "reasoning", "content": "x", "encryptedValue": "gAAAA"}
    said = {"role": "assistant", "content": "b"}
    assert _turns(sealed, said) == (Turn("assistant", "b", extra={"reasoning": "x"}),)
    assert _turns(foreign, said) == (Turn("assistant", "b"),)


@pytest.mark.parametrize(
    ("part", "taken"),
    [
        (
            {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ),
        (
            {
                "type": "image",
                "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"},
            },
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ),
        (
            {
                "type": "audio",
                "source": {"type": "data", "value": "AAAA", "mimeType": "audio/wav"},
            },
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ),
        (
            {
                "type": "document",
                "source": {"type": "data", "value": "AAAA", "mimeType": "application/pdf"},
            },
            {
                "type": "file",
                "file": {"filename": "document", "file_data": "data:application/pdf;base64,AAAA"},
            },
        ),
    ],
)
def test_media_are_parts(part: dict[str, Any], taken: dict[str, Any]) -> None:
    (turn,) = _turns(_user([{"type": "text", "text": "a"}, part]))
    assert (turn.text, turn.parts) == ("a", ({"type": "text", "text": "a"}, taken))


@pytest.mark.parametrize(
    ("content", "param"),
    [
        (7, "messages.0.content"),
        ([{"type": "image"}], "messages.0.content.0.source"),
        (
            [{"type": "video", "source": {"type": "url", "value": "https://example.org/"}}],
            "messages.0.content.0.source",
        ),
    ],
)
def test_what_cannot_be_told_is_refused_by_its_place(content: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _turns(_user(content))
    assert refused.value.param == param


def test_a_call_without_a_result_is_refused_or_left_behind() -> None:
    called = {"role": "assistant", "toolCalls": [_CALL]}
    with pytest.raises(InvalidRequest) as refused:
        _turns(_user("a"), called)
    assert refused.value.param == "messages.1.toolCalls"
    assert _turns(called, _user("a")) == (Turn("user", "a"),)


def test_tools_are_offered_by_their_schemas() -> None:
    (tool,) = offered([RunTool(name="add", description="Adds.", parameters={"type": "object"})])
    assert tool.model_dump(exclude_unset=True) == {
        "type": "function",
        "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
    }
