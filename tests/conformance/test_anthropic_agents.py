"""Agents of others with Anthropic's models, against `/v1/messages`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.scripted_server import ScriptedServer, scripted_server

_TEXT = "A train enters a tunnel: Zug 🚆, поезд."

SEEN: dict[tuple[str, str], dict[str, Any]] = {
    ("strands", "strands_anthropic.py"): {"tools": "Sunny in Zürich.", "shortens": _TEXT},
    ("clients", "langchain_anthropic_chat.py"): {
        "stream": _TEXT,
        "tools": [{"city": "Zürich"}, "Sunny in Zürich."],
        "too_long": True,
    },
}
"""By the environment and the file of a client: what it sees in each scenario."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module")
def saw(server: ScriptedServer) -> Callable[[str, str], dict[str, Any]]:
    @functools.cache
    def ran(group: str, file: str) -> dict[str, Any]:
        return server.saw(file.partition("_")[0], file, list(SEEN[group, file]), group)

    return ran


@pytest.mark.parametrize(
    ("client", "scenario"), [(client, scenario) for client in SEEN for scenario in SEEN[client]]
)
def test_an_agent_goes_on(
    saw: Callable[[str, str], dict[str, Any]], client: tuple[str, str], scenario: str
) -> None:
    assert saw(*client)[scenario] == SEEN[client][scenario]


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
