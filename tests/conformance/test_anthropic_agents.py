"""Agents of others with Anthropic's models, against `/v1/messages`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.scripted_server import ScriptedServer, scripted_server

_TEXT = "A train enters a tunnel: Zug 🚆, поезд."

SEEN: dict[str, Any] = {
    "strands_tools": "Sunny in Zürich.",
    "strands_shortens": _TEXT,
    "langchain_streams": _TEXT,
    "langchain_knows": True,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module")
def saw(server: ScriptedServer) -> Callable[[], dict[str, Any]]:
    return functools.cache(lambda: server.saw("agents", "anthropic_agents.py", list(SEEN)))


@pytest.mark.parametrize("scenario", SEEN)
def test_an_agent_goes_on(saw: Callable[[], dict[str, Any]], scenario: str) -> None:
    assert saw()[scenario] == SEEN[scenario]


@pytest.fixture(scope="module")
def ai_sdk_saw(server: ScriptedServer) -> dict[str, Any]:
    return server.saw("ai-sdk", "anthropic_ai_sdk.mjs", ["two_turns", "calls"])


def test_the_ai_sdk_gives_a_thought_back(
    server: ScriptedServer, ai_sdk_saw: dict[str, Any]
) -> None:
    thought = "Trains, tunnels … I see. "
    first = {"text": _TEXT, "reasoning": thought, "finishReason": "stop"}
    assert ai_sdk_saw["two_turns"] == [first, _TEXT]
    _, second = server.upstream.asked["ai-sdk.two_turns"]
    assert second["messages"][1]["reasoning_content"] == thought


def test_the_ai_sdk_is_given_calls(ai_sdk_saw: dict[str, Any]) -> None:
    assert ai_sdk_saw["calls"] == ["tool-calls", "get_weather", {"city": "Zürich"}]
