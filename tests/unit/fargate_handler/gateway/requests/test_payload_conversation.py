from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.fargate_handler.gateway.requests.payload_conversation import conversation_in
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage, brought_turns
from evenflow.stream_core.auth.rights import ALL_RIGHTS
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import POSTED_MESSAGE, PostedMessage, parse
from evenflow.stream_core.session.conversation import ToolCall, Turn

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 6 x 7?"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "42."},
    {"role": "user", "content": [{"type": "text", "text": "And 7 x 8?"}]},
]


def message(**payload: Any) -> PostedMessage:
    return parse(POSTED_MESSAGE, json.dumps({"message_id": "m1", "payload": payload}).encode())


def test_text_alone_brings_nothing() -> None:
    assert conversation_in(message(text="hi").payload) is None


def test_a_conversation_and_tools_are_terms_of_the_message() -> None:
    asked = message(
        messages=CONVERSATION, tools=[TOOL], tool_choice="required", parallel_tool_calls=False
    )
    claims = SessionClaims(Channel("t", "demo", "s"), 0, 0, may=ALL_RIGHTS)
    event = IncomingMessage.of_chat(claims, asked, brought=conversation_in(asked.payload))
    assert event.text == "And 7 x 8?"
    terms = MessageTerms.from_text(event.terms.to_text())
    assert terms == event.terms
    assert brought_turns(terms) == (
        Turn("system", "Be brief."),
        Turn("user", "What is 6 x 7?"),
        Turn("assistant", "", (ToolCall("c1", "f", "{}"),)),
        Turn("tool", "42", tool_call_id="c1"),
        Turn("assistant", "42."),
        Turn("user", "And 7 x 8?"),
    )
    assert (terms.tools, terms.tool_choice) == ([TOOL], "required")
    assert terms.parallel_tool_calls is False


@pytest.mark.parametrize(
    ("payload", "param"),
    [
        ({"text": "hi", "tools": [{"type": "web_search"}]}, "payload.tools.0.type"),
        ({"text": "hi", "tools": [{"type": "function"}]}, "payload.tools.0.function"),
        ({"text": "hi", "tool_choice": "required"}, "payload.tool_choice"),
        (
            {"messages": [{"role": "narrator", "content": "x"}, CONVERSATION[1]]},
            "payload.messages.0.role",
        ),
        ({"messages": [CONVERSATION[2], CONVERSATION[1]]}, "payload.messages.0.tool_calls"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_in_the_message(
    payload: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        conversation_in(message(**payload).payload)
    assert refused.value.param == param
