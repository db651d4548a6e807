"""Anthropic's clients, as they come from their registries, against `/v1/messages`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.interface_clients import (
    FAILS,
    LONG,
    LONG_TEXT,
    SHORT,
)
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess, clean_environment
from tests.integration.stock_clients.clients import node, python_of
from tests.integration.stock_clients.script import SILENCE_SECONDS
from tests.integration.stock_clients.upstream import MODEL, ScriptedUpstream

_FOLDER = Path(__file__).parent
_COMMANDS: dict[str, Callable[[], list[str]]] = {
    "python": lambda: [str(python_of("clients")), str(_FOLDER / "python/anthropic_sdk.py")],
    "javascript": lambda: [str(node()), str(_FOLDER / "javascript/anthropic_sdk.mjs")],
}
_CLIENT_SECONDS = 60
_SCRIPTED_TEXT = "A train enters a tunnel: Zug 🚆, поезд."
_USAGE = {
    "input_tokens": 10,
    "output_tokens": 12,
    "cache_read_input_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 7},
}

See = Callable[..., Any]


@pytest.fixture(params=_COMMANDS)
def see(request: pytest.FixtureRequest, upstream: ScriptedUpstream) -> See:
    """What one of the clients sees in a scenario."""
    # Each client is told the script from its beginning.
    upstream.asked.clear()

    def seen(server: ServerProcess, scenario: str, text: str, more: str = "") -> Any:
        asked = {"url": server.http_url, "scenario": scenario, "text": text, "more": more}
        model = MODEL if " for " in text else "demo"
        ran = subprocess.run(
            [*_COMMANDS[request.param](), json.dumps(asked | {"model": model})],
            env=clean_environment({}),
            capture_output=True,
            timeout=_CLIENT_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return json.loads(ran.stdout.splitlines()[-1])

    return seen


def _text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def _types(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


def test_an_answer_comes_whole(see: See, scripted: ServerProcess) -> None:
    message = see(scripted, "whole", "text for anthropic.whole")
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", MODEL)
    assert message["content"] == [{"type": "text", "text": _SCRIPTED_TEXT}]
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"] == _USAGE
    assert message["id"].startswith("msg_")


def test_an_answer_is_streamed(see: See, scripted: ServerProcess) -> None:
    message = see(scripted, "stream", "text for anthropic.stream")
    assert (_types(message), _text(message)) == (["text"], _SCRIPTED_TEXT)
    assert "".join(message["texts"]) == _SCRIPTED_TEXT
    assert message["stop_reason"] == "end_turn"
    assert message["usage"]["input_tokens"] == _USAGE["input_tokens"]
    assert message["usage"]["output_tokens"] == _USAGE["output_tokens"]


def test_the_events_come_in_their_order(see: See, server: ServerProcess) -> None:
    first, second, *deltas, before, stop, last = see(server, "events", SHORT)
    assert (first, second) == ("message_start", "content_block_start")
    assert set(deltas) == {"content_block_delta"}
    assert (before, stop, last) == ("content_block_stop", "message_delta", "message_stop")


def test_who_asks_for_thinking_is_given_it_before_the_text(
    see: See, scripted: ServerProcess
) -> None:
    for message in see(scripted, "thinking", "reasoning for anthropic.thinking"):
        assert _types(message) == ["thinking", "text"]
        assert message["content"][0]["thinking"] == "Trains, tunnels … I see. "
        assert _text(message) == _SCRIPTED_TEXT


def test_who_does_not_ask_for_thinking_is_given_text_alone(
    see: See, scripted: ServerProcess
) -> None:
    for scenario in ("whole", "stream"):
        message = see(scripted, scenario, "reasoning for anthropic.text")
        assert (_types(message), _text(message)) == (["text"], _SCRIPTED_TEXT)


def test_a_tool_is_called_and_its_result_is_answered(
    see: See, scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    saw = see(scripted, "two_turns", "weather for anthropic.weather", "sunny")
    assert saw["called"] == {"name": "get_weather", "input": {"city": "Zürich"}}
    assert (saw["stop"], _text(saw)) == ("tool_use", "Sunny in Zürich.")
    asked = upstream.asked["anthropic.weather"][-1]["messages"]
    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert asked[1]["tool_calls"][0]["function"]["arguments"] == '{"city":"Zürich"}'
    assert asked[2] == {"role": "tool", "content": "sunny", "tool_call_id": "call_abc123"}


def test_the_sdk_s_own_loop_runs_the_tools(
    see: See, scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    """It asks for a thread first, and goes on without one."""
    saw = see(scripted, "tool_runner", "weather for anthropic.runner", "sunny")
    assert _text(saw) == "Sunny in Zürich."
    *_, call, result = upstream.asked["anthropic.runner"][-1]["messages"]
    assert (call["role"], result["content"]) == ("assistant", "sunny in Zürich")


def test_the_models_are_as_the_sdk_knows_them(see: See, server: ServerProcess) -> None:
    saw = see(server, "models", SHORT)
    assert saw["listed"] == ["demo"]
    assert (saw["type"], saw["id"], saw["display_name"]) == ("model", "demo", "demo")
    assert saw["created_at"].endswith("Z")


def test_calls_are_streamed(see: See, scripted: ServerProcess) -> None:
    message = see(scripted, "tools_streamed", "tools for anthropic.tools")
    assert [(block["name"], block["input"]) for block in message["content"]] == [
        ("get_weather", {"city": "Zürich"}),
        ("get_time", {"city": "Oslo"}),
    ]
    assert message["stop_reason"] == "tool_use"


def test_parameters_reach_the_model_by_its_servers_names(
    see: See, scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    see(scripted, "parameters", "text for anthropic.parameters")
    asked = upstream.asked["anthropic.parameters"][-1]
    system, user = asked["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
    }
    given = {name: asked[name] for name in ("stop", "temperature", "top_k", "max_tokens")}
    assert given == {"stop": ["END"], "temperature": 0.5, "top_k": 7, "max_tokens": 1000}
    assert asked["tools"][0]["function"]["parameters"]["type"] == "object"
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert asked["parallel_tool_calls"] is False


@pytest.mark.parametrize(("script", "reason"), [("cut", "max_tokens"), ("filtered", "refusal")])
def test_it_is_said_why_an_answer_ended(
    see: See, scripted: ServerProcess, script: str, reason: str
) -> None:
    message = see(scripted, "stream", f"{script} for anthropic.{script}")
    assert message["stop_reason"] == reason


def test_a_refusal_is_text_and_said_to_be_one(see: See, scripted: ServerProcess) -> None:
    for scenario in ("whole", "stream"):
        message = see(scripted, scenario, "refusal for anthropic.refusal")
        assert (_text(message), message["stop_reason"]) == ("I cannot help with that.", "refusal")


async def test_the_model_stops_when_its_reader_leaves(see: See, server: ServerProcess) -> None:
    before = await server.metric("responses_cancelled_total")
    saw = see(server, "abort", LONG)
    assert LONG_TEXT.startswith("".join(saw["texts"]))
    await server.until_metric("responses_cancelled_total", before + 1)


def test_who_comes_back_with_the_key_is_given_the_same_answer(
    see: See, server: ServerProcess, request: pytest.FixtureRequest
) -> None:
    saw = see(server, "come_back", LONG, f"key of {request.node.name}")
    assert saw["begun"]
    assert LONG_TEXT.startswith(saw["begun"])
    assert (_text(saw), saw["id"]) == (LONG_TEXT, saw["first"])


@pytest.mark.parametrize("scenario", ["whole", "stream"])
@pytest.mark.parametrize(
    ("script", "raised", "status", "kind"),
    [
        ("too-long", "BadRequestError", 400, "invalid_request_error"),
        ("busy", "RateLimitError", 429, "rate_limit_error"),
        ("overloaded", "", 529, "overloaded_error"),
    ],
)
def test_a_failure_before_the_answer_is_raised(
    see: See,
    scripted: ServerProcess,
    scenario: str,
    script: str,
    raised: str,
    status: int,
    kind: str,
) -> None:
    saw = see(scripted, scenario, f"{script} for anthropic.{script}.{scenario}")
    assert (saw["status"], saw["body"]["error"]["type"]) == (status, kind)
    assert raised in saw["raised"]
    assert saw["request_id"] == saw["body"]["request_id"]
    assert (saw["retry_after"] is None) is (status == 400)


def test_a_failure_behind_text_is_raised(see: See, server: ServerProcess) -> None:
    saw = see(server, "stream", FAILS)
    assert saw["body"]["type"] == "error"
    assert saw["body"]["error"]["type"] == "api_error"


def test_what_is_not_served_is_refused_by_its_name(see: See, server: ServerProcess) -> None:
    saw = see(server, "unserved", SHORT)
    assert (saw["status"], saw["body"]["error"]["param"]) == (400, "container")
    counted = see(server, "count_tokens", SHORT)
    assert counted["status"] == 404
    assert "tokens are not counted here" in counted["body"]["error"]["message"]


def test_silence_is_bridged_by_pings(
    see: See, serve_process: ServeProcess, upstream: ScriptedUpstream
) -> None:
    server = serve_process(
        model="openai",
        model_url=upstream.url,
        model_name=MODEL,
        sse_heartbeat_seconds=SILENCE_SECONDS / 5,
    )
    for script in ("silence-first", "silence-within"):
        message = see(server, "stream", f"{script} for anthropic.{script}")
        assert _text(message) == _SCRIPTED_TEXT
