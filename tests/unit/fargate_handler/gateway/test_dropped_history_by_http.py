"""What readers of events and polls learn of a conversation that the model does not get whole."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.stream_core.base.limits import Limits
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, EventStream
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


async def _asked(gateway: Gateway, questions: int) -> str:
    """The response's id of the last question, which the model has. The others are answered."""
    client = gateway.connect()
    for number in range(questions):
        await client.say(f"m{number}", f"m{number - 1}" if number else None)
        await settle()
        if number < questions - 1:
            gateway.call.push("ok")
            gateway.call.finish()
            await settle()
    started: str = client.transport.of_type("chat.response.start")[-1]["response_id"]
    return started


def _starts(events: EventStream) -> list[tuple[str, int, str]]:
    return [
        (event_id, data["history_dropped"], data["history_dropped_by"])
        for kind, event_id, data in events.events
        if kind == "chat.response.start"
    ]


async def test_who_comes_later_is_told_at_once() -> None:
    gateway = Gateway(Limits(history_bytes=4))
    path = f"/chat/message/{await _asked(gateway, 3)}"
    calls = Calls(gateway.context, CHANNEL)
    events = EventStream(calls, f"{path}/events")
    copy = EventStream(calls, f"{path}/events?joined=0", calls.as_peer(path.rpartition("/")[2]))
    await settle()
    assert (_starts(events), _starts(copy)) == ([("", 1, "server")], [])
    gateway.call.push("ok")
    gateway.call.finish()
    await settle()
    metadata = (await calls.json("GET", path))["metadata"]
    assert (metadata["history_dropped"], metadata["history_dropped_by"]) == (1, "server")


async def test_who_reads_is_told_when_the_model_refuses_the_whole_conversation() -> None:
    gateway = Gateway()
    path = f"/chat/message/{await _asked(gateway, 5)}"
    events = EventStream(Calls(gateway.context, CHANNEL), f"{path}/events")
    await settle()
    assert _starts(events) == []
    gateway.call.fail(refusal("prompt is too long", status=400))
    await settle()
    assert _starts(events) == [("", 3, "model")]
    gateway.call.push("fine")
    gateway.call.finish()
    await settle()
    assert [told for told in events.heard if told[1] == "fine"] == [("0", "fine")]


async def test_nothing_is_said_of_a_conversation_that_the_model_gets_whole() -> None:
    gateway = Gateway()
    path = f"/chat/message/{await _asked(gateway, 2)}"
    calls = Calls(gateway.context, CHANNEL)
    events = EventStream(calls, f"{path}/events")
    await settle()
    gateway.call.push("ok")
    gateway.call.finish()
    await settle()
    assert _starts(events) == []
    assert "history_dropped" not in (await calls.json("GET", path))["metadata"]


async def test_a_chat_s_reader_that_moves_is_sent_on_by_a_node_that_leaves() -> None:
    gateway = Gateway()
    calls = Calls(gateway.context, CHANNEL)
    assert (await calls.call("GET", "/api/chat/c/stream?moving=1")).status == 204
    gateway.orchestrator.stop_accepting()
    assert (await calls.call("GET", "/api/chat/c/stream?moving=1")).status == 503
    assert (await calls.call("GET", "/api/chat/c/stream")).status == 204
