"""The client of Durable Streams, as it comes from its registry, against `/streams`."""

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


def _saw(server: ServerProcess, scenario: str, text: str) -> Saw:
    return see("durable_streams", server.http_url, scenario, text)


def _text(messages: list[dict[str, Any]]) -> str:
    return "".join(message.get("delta", "") for message in messages)


@pytest.mark.parametrize("scenario", ["sse", "longPoll"])
def test_an_answer_is_read_to_its_end(server: ServerProcess, scenario: str) -> None:
    saw = _saw(server, scenario, SHORT)
    assert (_text(saw["messages"]), saw["closed"]) == (SHORT_TEXT, True)
    *deltas, last = saw["messages"]
    assert [delta["index"] for delta in deltas] == list(range(len(deltas)))
    assert last["type"] == "chat.response.completed"


@pytest.mark.parametrize("scenario", ["reloadedSse", "reloadedLongPoll"])
def test_who_comes_back_with_an_offset_goes_on_exactly(
    server: ServerProcess, scenario: str
) -> None:
    saw = _saw(server, scenario, LONG)
    assert 0 < len(saw["first"]) < len(saw["messages"])
    assert _text(saw["messages"]) == LONG_TEXT
    indexes = [message["index"] for message in saw["messages"][:-1]]
    assert indexes == list(range(len(indexes)))
    assert saw["closed"]


def test_what_was_read_live_is_there_again(server: ServerProcess) -> None:
    saw = _saw(server, "catchUp", SHORT)
    assert _text(saw["again"]) == SHORT_TEXT
    assert saw["again"] == saw["live"], "the same positions have the same messages"
    assert (saw["tail"], saw["closed"]) == ([], True)


def test_an_error_is_the_last_message(server: ServerProcess) -> None:
    saw = _saw(server, "sse", FAILS)
    assert _text(saw["messages"]) == FAILS_TEXT
    assert saw["messages"][-1]["type"] == "chat.response.error"
    assert saw["closed"]


def test_the_tail_is_told_without_reading(server: ServerProcess) -> None:
    saw = _saw(server, "head", SHORT)
    assert (saw["told"], saw["closed"], saw["type"]) == (saw["offset"], True, "application/json")


def test_what_is_not_there_is_raised(server: ServerProcess) -> None:
    assert _saw(server, "unknown", SHORT) == {"status": 404}
