"""AG-UI's own `HttpAgent` with its verifier, as it comes from its registry, against `/agui`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests.conformance.interface_clients import (
    FAILS,
    FAILS_TEXT,
    LONG,
    LONG_TEXT,
    SHORT,
    SHORT_TEXT,
    Saw,
    see,
)
from tests.integration.server_process import ServerProcess
from tests.integration.stock_clients.upstream import ScriptedUpstream

_SCRIPTED_TEXT = "A train enters a tunnel: Zug 🚆, поезд."


def _saw(server: ServerProcess, scenario: str, text: str) -> Saw:
    return see("agui", server.http_url, scenario, text)


def _types(saw: Saw) -> list[str]:
    """The types of the events, each run of the same one once."""
    return [kind for kind, _ in groupby(event["type"] for event in saw["events"])]


def _last(saw: Saw) -> dict[str, Any]:
    event: dict[str, Any] = saw["events"][-1]
    return event


def test_a_run_is_streamed(server: ServerProcess) -> None:
    saw = _saw(server, "send", SHORT)
    assert _types(saw) == [
        *("RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        "RUN_FINISHED",
    ]
    _, answer = saw["messages"]
    assert (answer["role"], answer["content"]) == ("assistant", SHORT_TEXT)
    assert _last(saw)["outcome"] == {"type": "success"}
    (usage,) = _last(saw)["usage"]
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]


def test_reasoning_is_a_message_of_its_own(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "send", "reasoning for agui.reasoning")
    assert [(message["role"], message["content"]) for message in saw["messages"][1:]] == [
        ("reasoning", "Trains, tunnels … I see. "),
        ("assistant", _SCRIPTED_TEXT),
    ]


def test_tools_of_the_client_are_called_and_their_results_answered(
    scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    saw = _saw(scripted, "tools", "weather for agui.tools")
    assert saw["outcome"] == {"type": "success", "pendingToolCallIds": ["call_abc123"]}
    _, called, _, answer = saw["messages"]
    (call,) = called["toolCalls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
    assert answer["content"] == "Sunny in Zürich."
    first, second = upstream.asked["agui.tools"]
    assert first["tools"][0]["function"]["name"] == "get_weather"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("when", ["first", "within"])
def test_a_model_may_be_silent(scripted: ServerProcess, when: str) -> None:
    saw = _saw(scripted, "send", f"silence-{when} for agui.silence-{when}")
    assert (_last(saw)["type"], saw["messages"][-1]["content"]) == ("RUN_FINISHED", _SCRIPTED_TEXT)


def test_the_model_is_told_the_context_and_given_the_parameters(
    scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    saw = _saw(scripted, "context", "text for agui.context")
    assert (saw["state"], _last(saw)["type"]) == ({"page": 7}, "RUN_FINISHED")
    (asked,) = upstream.asked["agui.context"]
    assert asked["messages"][0] == {"role": "system", "content": "The user's city: Zürich"}
    assert asked["temperature"] == 0.5
    assert "of_the_application" not in asked


def test_stored_messages_say_where_the_answer_goes_on(server: ServerProcess) -> None:
    saw = _saw(server, "reload", LONG)
    assert LONG_TEXT.startswith(saw["partly"])
    assert "MESSAGES_SNAPSHOT" not in _types(saw)
    given = "".join(event.get("delta", "") for event in saw["events"])
    assert (saw["partly"] + given, saw["messages"][-1]["content"]) == (LONG_TEXT, LONG_TEXT)


def test_a_header_says_where_the_answer_goes_on(server: ServerProcess) -> None:
    saw = _saw(server, "reloadWithHeader", LONG)
    assert 0 < len(saw["partly"]) < len(LONG_TEXT)
    assert "MESSAGES_SNAPSHOT" not in _types(saw)
    assert saw["messages"][-1]["content"] == LONG_TEXT


def test_who_does_not_know_where_it_was_is_told_the_answer_anew(server: ServerProcess) -> None:
    saw = _saw(server, "reloadWithoutCursor", LONG)
    assert _types(saw)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    question, answer = saw["messages"]
    assert (question["content"], answer["content"]) == (LONG, LONG_TEXT)


def test_a_run_that_is_asked_for_twice_is_the_same(server: ServerProcess) -> None:
    saw = _saw(server, "secondTab", LONG)
    one, other = (saw[tab]["messages"][-1] for tab in ("one", "other"))
    assert one == other
    assert one["content"] == LONG_TEXT


async def test_stop_from_another_device_stops_the_model(server: ServerProcess) -> None:
    saw = _saw(server, "stop", LONG)
    assert (saw["answer"], _last(saw)["outcome"]) == ({"success": True}, {"type": "cancelled"})
    text = saw["messages"][-1]["content"]
    assert LONG_TEXT.startswith(text)
    assert len(text) < len(LONG_TEXT)
    await server.until_metric("generations_running", 0, 0.5)


async def test_a_model_whose_reader_has_left_stops_after_the_grace(server: ServerProcess) -> None:
    _saw(server, "leave", "#demo tokens=4000 gap_ms=30 seed=3")
    assert await server.metric("generations_running") == 1
    await server.until_metric("generations_running", 0, 5)


def test_an_error_of_the_request_has_its_status_and_words(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "send", "too-long for agui.long")
    assert saw["raised"].startswith("HTTP 400")
    assert "context_length_exceeded" in saw["raised"]
    assert saw["events"] == []


def test_an_answer_to_an_interrupt_is_refused_by_its_name(server: ServerProcess) -> None:
    saw = _saw(server, "resumeOfInterrupt", SHORT)
    assert saw["raised"].startswith("HTTP 400")
    assert '"param":"resume"' in saw["raised"]


def test_an_error_stands_behind_the_text_that_was_kept(server: ServerProcess) -> None:
    saw = _saw(server, "send", FAILS)
    assert (_last(saw)["type"], _last(saw)["code"]) == ("RUN_ERROR", "upstream_failed")
    assert saw["messages"][-1]["content"] == FAILS_TEXT


def test_an_answer_that_begins_again_takes_back_what_was_said(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "send", "begun-again for agui.again")
    assert "MESSAGES_SNAPSHOT" in _types(saw)
    assert [message["content"] for message in saw["messages"]] == [
        "begun-again for agui.again",
        "Other words.",
    ]
    assert "raised" not in saw
