"""AI SDK's own chat, as it comes from its registry, against `/api/chat`."""

from __future__ import annotations

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
_DONE = {"isAbort": False, "isDisconnect": False, "isError": False, "finishReason": "stop"}


def _saw(server: ServerProcess, scenario: str, text: str, more: str = "") -> Saw:
    return see("ai_sdk", server.http_url, scenario, text, more=more)


def _types(message: dict[str, Any]) -> list[str]:
    return [part["type"] for part in message["parts"]]


def _text(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def test_an_answer_is_streamed(server: ServerProcess) -> None:
    saw = _saw(server, "send", SHORT)
    assert (saw["status"], saw["errors"], saw["finish"]) == ("ready", [], _DONE)
    question, answer = saw["messages"]
    assert (question["role"], answer["role"], _types(answer)) == (
        *("user", "assistant"),
        ["step-start", "text"],
    )
    assert answer["parts"][1] == {"type": "text", "text": SHORT_TEXT, "state": "done"}


def test_reasoning_comes_before_the_text(scripted: ServerProcess) -> None:
    answer = _saw(scripted, "send", "reasoning for ai.reasoning")["messages"][-1]
    assert _types(answer) == ["step-start", "reasoning", "text"]
    assert answer["parts"][1]["text"] == "Trains, tunnels … I see. "
    assert answer["parts"][1]["state"] == "done"
    assert _text(answer) == _SCRIPTED_TEXT


def test_tools_of_the_client_are_called_and_their_results_answered(
    scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    saw = _saw(scripted, "tools", "weather for ai.tools")
    assert [call["input"] for call in saw["called"]] == [{"city": "Zürich"}]
    assert saw["errors"] == []
    _, answer = saw["messages"]
    assert _types(answer) == ["step-start", "tool-get_weather", "step-start", "text"]
    assert answer["parts"][1]["state"] == "output-available"
    assert _text(answer) == "Sunny in Zürich."
    roles = [message["role"] for message in upstream.asked["ai.tools"][-1]["messages"]]
    assert roles == ["user", "assistant", "tool"]


@pytest.mark.parametrize("when", ["first", "within"])
def test_a_model_may_be_silent(scripted: ServerProcess, when: str) -> None:
    saw = _saw(scripted, "send", f"silence-{when} for ai.silence-{when}")
    assert (saw["status"], _text(saw["messages"][-1])) == ("ready", _SCRIPTED_TEXT)


def test_a_conversation_goes_on(scripted: ServerProcess, upstream: ScriptedUpstream) -> None:
    saw = _saw(scripted, "twoTurns", "turns for ai.turns", "and more")
    assert [_text(message) for message in saw["messages"]] == [
        *("turns for ai.turns", _SCRIPTED_TEXT),
        *("and more", "The second answer."),
    ]
    asked = upstream.asked["ai.turns"][-1]["messages"]
    assert [message["role"] for message in asked] == ["user", "assistant", "user"]


def test_another_answer_takes_the_place_of_the_first(server: ServerProcess) -> None:
    saw = _saw(server, "regenerate", SHORT)
    _, answer = saw["messages"]
    assert (saw["first"] != answer["id"], _text(answer)) == (True, SHORT_TEXT)


def test_a_page_that_is_loaded_again_has_the_whole_answer(server: ServerProcess) -> None:
    saw = _saw(server, "reload", LONG)
    _, answer = saw["messages"]
    assert LONG_TEXT.startswith(saw["partly"])
    assert len(saw["partly"]) < len(LONG_TEXT)
    assert (answer["id"], _text(answer), saw["status"]) == (saw["before"], LONG_TEXT, "ready")


def test_a_page_that_has_stored_nothing_reads_question_and_answer(
    scripted: ServerProcess, upstream: ScriptedUpstream
) -> None:
    saw = _saw(scripted, "readAgain", "turns for ai.read", "and more")
    assert saw["read"] == saw["before"]
    assert [_text(message) for message in saw["messages"]] == [
        *("turns for ai.read", _SCRIPTED_TEXT),
        *("and more", "The second answer."),
    ]
    asked = upstream.asked["ai.read"][-1]["messages"]
    assert [message["role"] for message in asked] == ["user", "assistant", "user"]


def test_an_answer_is_read_with_its_parts(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "readAgain", "reasoning for ai.read-reasoning", "hello for ai.read-more")
    assert _types(saw["read"][-1]) == ["step-start", "reasoning", "text"]
    assert saw["read"] == saw["before"]


def test_an_answer_that_is_read_while_it_runs_is_not_doubled(server: ServerProcess) -> None:
    saw = _saw(server, "readWhileItRuns", LONG)
    question, answer = saw["read"]
    assert _text(question) == LONG
    assert LONG_TEXT.startswith(_text(answer))
    assert 0 < len(_text(answer)) < len(LONG_TEXT)
    assert saw["messages"] == saw["before"]
    assert (answer["id"], _text(saw["messages"][-1])) == (saw["before"][-1]["id"], LONG_TEXT)


def test_a_second_tab_reads_the_same(server: ServerProcess) -> None:
    saw = _saw(server, "secondTab", LONG)
    one, other = (saw[tab]["messages"] for tab in ("one", "other"))
    assert one == other
    assert _text(one[-1]) == LONG_TEXT


def test_where_nothing_runs_nothing_is_resumed(server: ServerProcess) -> None:
    saw = _saw(server, "nothingRuns", "")
    assert (saw["messages"], saw["status"], saw["errors"]) == ([], "ready", [])


async def test_stop_from_another_device_stops_the_model(server: ServerProcess) -> None:
    saw = _saw(server, "stop", LONG)
    text = _text(saw["messages"][-1])
    assert LONG_TEXT.startswith(text)
    assert len(text) < len(LONG_TEXT)
    assert (saw["answer"], saw["stale"]) == ({"success": True}, {"success": True})
    assert (saw["status"], saw["errors"], saw["late"]) == ("ready", [], [])
    await server.until_metric("generations_running", 0, 0.5)


async def test_a_model_whose_reader_has_left_stops_after_the_grace(server: ServerProcess) -> None:
    saw = _saw(server, "leave", "#demo tokens=4000 gap_ms=30 seed=3")
    assert saw["finish"]["isAbort"]
    assert await server.metric("generations_running") == 1
    await server.until_metric("generations_running", 0, 5)


def test_an_error_of_the_request_has_its_status_and_words(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "send", "too-long for ai.long")
    assert (saw["status"], len(saw["messages"])) == ("error", 1)
    assert "context_length_exceeded" in saw["error"]


def test_an_error_stands_behind_the_text_that_was_kept(server: ServerProcess) -> None:
    saw = _saw(server, "send", FAILS)
    assert (saw["status"], _text(saw["messages"][-1])) == ("error", FAILS_TEXT)
    assert "told to fail" in saw["error"]


def test_an_answer_that_begins_again_is_reset(scripted: ServerProcess) -> None:
    saw = _saw(scripted, "send", "begun-again for ai.again")
    _, answer = saw["messages"]
    assert (_types(answer), _text(answer)) == (["step-start", "text"], "Other words.")
    assert (saw["status"], saw["errors"]) == ("ready", [])
