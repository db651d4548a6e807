"""Clients of OpenAI's Responses API: what they saw, and what the model's server was asked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.scripted_server import ScriptedServer, scripted_server

_TEXT = "A train enters a tunnel: Zug 🚆, поезд."
_COUNTED = {"tokens": [30, 12]}
_MESSAGE = {"status": "completed", "text": _TEXT, "items": ["message"], **_COUNTED}
_EVENTS = [
    *("response.created", "response.in_progress", "response.output_item.added"),
    *("response.content_part.added", "response.output_text.delta", "response.output_text.done"),
    *("response.content_part.done", "response.output_item.done", "response.completed"),
]
_REASONED = _MESSAGE | {"items": ["reasoning", "message"]}
_THOUGHT = "Trains, tunnels … I see. "
_CALLS = [
    ["get_weather", '{"city": "Zürich"}', "call_abc123"],
    ["get_time", '{"city": "Oslo"}', "call_def456"],
]

SEEN: dict[str, Any] = {
    "whole": _MESSAGE,
    "stream": _MESSAGE | {"types": _EVENTS, "deltas": _TEXT, "grow": True},
    "reasoning": _REASONED | {"said": _THOUGHT, "summary": _THOUGHT},
    "reasoning_given_back": _REASONED,
    "refusal": {"said": "I cannot help with that.", "refusal": "I cannot help with that."},
    "tools": {
        "calls": _CALLS,
        "said": '{"city": "Zürich"}{"city": "Oslo"}',
        "answer": _MESSAGE | {"text": "Sunny in Zürich, and noon in Oslo."},
    },
    "structured": {"name": "Ada Lovelace", "age": 36},
    "incomplete": ["incomplete", "max_output_tokens"],
    "logprobs": [-0.5] * 5,
    "conversation": {
        "second": _MESSAGE | {"text": "The second answer."},
        "previous": True,
        "kept": True,
        "instructions": ["Be brief.", None],
    },
    "cut": {"before": "A train ", "text": _TEXT, "type": "response.completed", "behind": 0},
    "background": {
        "running": ["in_progress"],
        "ended": _MESSAGE,
        "background": True,
    },
    "cancelled": ["cancelled", "cancelled"],
    "aborted": "response_not_found",
    "deleted": "response_not_found",
    "input_items": [["input_text", "input_image"]],
    "repeated": True,
    "websocket": {
        "saw": [_MESSAGE, _MESSAGE | {"text": "The second answer."}],
        "refused": ["error", "context_length_exceeded", 400],
    },
}
RAISED = {
    "too_long": ("BadRequestError", 400, "context_length_exceeded"),
    "too_long_streamed": ("BadRequestError", 400, "context_length_exceeded"),
    "hosted_tool": ("BadRequestError", 400, "unsupported_value"),
    "unknown_previous": ("BadRequestError", 400, "previous_response_not_found"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="module")
def openai_saw(asked: ScriptedServer) -> Callable[[str], Any]:
    saw = asked.saw("openai", "responses_openai.py", [*SEEN, *RAISED, "cut_anywhere"])
    return saw.__getitem__


@pytest.mark.parametrize("scenario", SEEN)
def test_openai_s_sdk_sees_the_answer(openai_saw: Callable[[str], Any], scenario: str) -> None:
    assert openai_saw(scenario) == SEEN[scenario]


@pytest.mark.parametrize("scenario", RAISED)
def test_openai_s_sdk_raises(openai_saw: Callable[[str], Any], scenario: str) -> None:
    saw = openai_saw(scenario)
    assert (saw["raised"], saw["status"], saw["code"]) == RAISED[scenario]


def test_a_stream_that_is_cut_behind_any_event_goes_on_with_the_next(
    openai_saw: Callable[[str], Any],
) -> None:
    events, the_same = openai_saw("cut_anywhere")
    assert events > 10
    assert the_same


_TOLD = {"output": _TEXT, **_COUNTED}
_TOOLS_ANSWER = "Sunny in Zürich, and noon in Oslo."
_AGENT_CALLS = [
    *("tool_call_item", "tool_call_item", "tool_call_output_item", "tool_call_output_item"),
    "message_output_item",
]
_AGENT_TOOLS = {"output": _TOOLS_ANSWER, "items": _AGENT_CALLS, "tokens": [60, 24]}
_AGENT_REASONED = _TOLD | {"items": ["reasoning_item", "message_output_item"]}
_REASONED_PARTS = _TOLD | {"parts": ["user-prompt", "thinking", "text"]}
_PERSON = {"name": "Ada Lovelace", "age": 36}
_AI_SDK = {"text": _TEXT, "finishReason": "stop", **_COUNTED}

OTHERS: dict[tuple[str, str], dict[str, Any]] = {
    ("openai-agents", "responses_agents.py"): {
        "whole": _TOLD | {"items": ["message_output_item"]},
        "stream": _TOLD | {"items": ["message_output_item"], "deltas": True},
        "tools": _AGENT_TOOLS,
        "tools_by_id": _AGENT_TOOLS,
        "namespace": {
            "output": "Sunny in Zürich.",
            "items": ["tool_call_item", "tool_call_output_item", "message_output_item"],
            "tokens": [60, 24],
        },
        "structured": _PERSON,
        "reasoning": [_AGENT_REASONED, _AGENT_REASONED],
    },
    ("pydantic-ai", "responses_pydantic_ai.py"): {
        "model": "OpenAIResponsesModel",
        "whole": _TOLD | {"parts": ["user-prompt", "text"]},
        "stream": {"text": _TEXT},
        "tools": {
            "output": _TOOLS_ANSWER,
            "parts": [
                *("user-prompt", "tool-call", "tool-call", "tool-return", "tool-return"),
                "text",
            ],
            "tokens": [60, 24],
        },
        "structured": _PERSON,
        "reasoning": [_REASONED_PARTS, _REASONED_PARTS],
    },
    ("openai-js", "responses_openai.mjs"): {
        "whole": _MESSAGE,
        "stream": _REASONED | {"deltas": _TEXT},
        "tools": {"calls": _CALLS, "answer": _MESSAGE | {"text": _TOOLS_ANSWER}},
        "cut": {"before": "A train ", "text": _TEXT},
    },
    ("ai-sdk", "responses_ai_sdk.mjs"): {
        "provider": "openai.responses",
        "whole": _AI_SDK,
        "stream": {"text": _TEXT, "reasoning": _THOUGHT, "finishReason": "stop"},
        "tools": {
            "text": _TOOLS_ANSWER,
            "calls": [
                ["get_weather", "Zürich", "call_abc123"],
                ["get_time", "Oslo", "call_def456"],
            ],
        },
        "two_turns": [_AI_SDK, _AI_SDK | {"text": "The second answer."}],
        "object": _PERSON,
    },
}
"""By client: what it sees in each scenario. In `too_long` it raises."""


@pytest.fixture(scope="module")
def others_saw(asked: ScriptedServer) -> Callable[[str, str], dict[str, Any]]:
    @functools.cache
    def saw(client: str, file: str) -> dict[str, Any]:
        return asked.saw(client, file, [*OTHERS[client, file], "too_long"])

    return saw


@pytest.mark.parametrize(
    ("client", "scenario"),
    [(client, scenario) for client, seen in OTHERS.items() for scenario in seen],
    ids=lambda given: given if isinstance(given, str) else given[0],
)
def test_a_client_with_its_default_sees_the_answer(
    others_saw: Callable[[str, str], dict[str, Any]], client: tuple[str, str], scenario: str
) -> None:
    assert others_saw(*client)[scenario] == OTHERS[client][scenario]


@pytest.mark.parametrize("client", OTHERS, ids=lambda client: str(client[0]))
def test_a_client_with_its_default_raises(
    others_saw: Callable[[str, str], dict[str, Any]], client: tuple[str, str]
) -> None:
    assert others_saw(*client)["too_long"]["status"] == 400


@pytest.mark.usefixtures("openai_saw")
def test_the_model_is_given_its_reasoning_and_the_conversation(asked: ScriptedServer) -> None:
    _, second = asked.upstream.asked["openai.reasoning_given_back"]
    assert [(each["role"], each.get("reasoning_content")) for each in second["messages"]] == [
        ("user", None),
        ("assistant", _THOUGHT),
        ("user", None),
    ]
    _, second = asked.upstream.asked["openai.tools"]
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "tool", "tool"]


@pytest.mark.usefixtures("openai_saw")
def test_instructions_are_those_of_their_request(asked: ScriptedServer) -> None:
    first, second = asked.upstream.asked["openai.conversation"]
    assert [each["role"] for each in first["messages"]] == ["system", "user"]
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "user"]


def test_functions_of_a_namespace_are_offered_and_called_by_one_name(
    asked: ScriptedServer, others_saw: Callable[[str, str], dict[str, Any]]
) -> None:
    others_saw("openai-agents", "responses_agents.py")
    _, second = asked.upstream.asked["openai-agents.namespace"]
    assert [tool["function"]["name"] for tool in second["tools"]] == ["sky__say_weather"]
    *_, call, _ = second["messages"]
    assert call["tool_calls"][0]["function"]["name"] == "sky__say_weather"
