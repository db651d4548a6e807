"""What Codex sends over the Responses API, and reads of the answer.

The wire of the command line in test_codex.py, after `ResponsesApiRequest` in
codex-rs/codex-api/src/common.rs and `process_sse` in codex-rs/codex-api/src/sse/responses.rs of
github.com/openai/codex.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.conformance.scripted_server import ScriptedServer, scripted_server
from tests.integration.stock_clients.upstream import MODEL

_PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
_SHELL = {
    "type": "function",
    "name": "get_weather",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory) as started:
        yield started


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def _request(items: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "instructions": "You are Codex, a coding agent.",
        "input": items,
        "tools": [_SHELL, _PATCH],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "text": {"verbosity": "medium"},
        **given,
    }


async def _ask(server: ScriptedServer, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that Codex reads: each line of data, by its type."""
    headers = {"Authorization": "Bearer sk-anything", "Accept": "text/event-stream"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{server.url}/responses", json=request, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        lines = [line async for line in answer.content if line.startswith(b"data: ")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def _items(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


async def test_a_turn_with_a_call_and_its_output(server: ScriptedServer) -> None:
    asked = [_message("tools for codex.turn")]
    first = await _ask(server, _request(asked))
    calls = _items(first)
    assert [(call["type"], call["name"]) for call in calls] == [
        ("function_call", "get_weather"),
        ("function_call", "get_time"),
    ]
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
        for call in calls
    ]
    second = await _ask(server, _request([*asked, *calls, *outputs]))
    assert second[-1]["type"] == "response.completed"
    assert second[-1]["response"]["usage"]["total_tokens"] == 42
    text = _items(second)[0]["content"][0]["text"]
    assert text == "Sunny in Zürich, and noon in Oslo."
    tools = server.upstream.asked["codex.turn"][0]["tools"]
    assert tools[1]["custom"]["format"]["grammar"]["syntax"] == "lark"


async def test_reasoning_is_shown_and_given_back(server: ScriptedServer) -> None:
    asked = [_message("reasoning for codex.reasoning")]
    events = await _ask(server, _request(asked))
    said = [
        event["delta"]
        for event in events
        if event["type"] == "response.reasoning_summary_text.delta"
    ]
    assert "".join(said) == "Trains, tunnels … I see. "
    assert all(event["summary_index"] == 0 for event in events if "summary_index" in event)
    await _ask(server, _request([*asked, *_items(events), _message("And now?")]))
    last = server.upstream.asked["codex.reasoning"][-1]["messages"]
    assert last[2]["reasoning_content"] == "Trains, tunnels … I see. "


async def test_a_failure_has_a_code_that_codex_knows(server: ScriptedServer) -> None:
    request = _request([_message("too-long for codex.failure")])
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{server.url}/responses", json=request) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "context_length_exceeded"


_SUB_AGENTS = {
    "type": "namespace",
    "name": "multi_agent_v1",
    "description": "Sub-agents.",
    "tools": [{**_SHELL, "name": "spawn_agent"}],
}


async def test_a_function_of_a_namespace_is_called_and_its_output_is_read(
    server: ScriptedServer,
) -> None:
    asked = [_message("first-tool for codex.namespace")]
    first = await _ask(server, _request(asked, tools=[_SUB_AGENTS]))
    (call,) = _items(first)
    assert (call["namespace"], call["name"]) == ("multi_agent_v1", "spawn_agent")
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
    second = await _ask(server, _request([*asked, call, output], tools=[_SUB_AGENTS]))
    assert _items(second)[0]["content"][0]["text"] == "Sunny in Zürich."
    *_, called, _ = server.upstream.asked["codex.namespace"][1]["messages"]
    assert called["tool_calls"][0]["function"]["name"] == "multi_agent_v1__spawn_agent"
