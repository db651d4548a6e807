"""What the other tabs of a session hear of its messages, and what a client hears of its own."""

from __future__ import annotations

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.stream_core.base.limits import Limits
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.settle import settle


async def test_the_other_connections_are_told_of_a_message_and_can_read_its_answer() -> None:
    gateway = Gateway()
    sender, other = gateway.connect(), gateway.connect()
    with_ticket = gateway.connect(only_for="rsp_1")
    await sender.say("m1")
    await settle()
    response_id = gateway.stream(sender).response_id
    assert other.frames[1:] == [
        {
            "type": "session.message",
            "session_id": "ses_1",
            "message_id": "m1",
            "previous_message_id": None,
            "response_id": response_id,
            "text": "hi",
        }
    ]
    assert not sender.transport.of_type("session.message")
    assert len(with_ticket.frames) == 1
    gateway.call.push("Hello")
    other.send("response.resume", response_id=response_id, after=-1)
    assert other.text() == sender.text() == "Hello"


async def test_they_are_told_once_and_what_it_replaces() -> None:
    gateway = Gateway()
    sender, other = gateway.connect(), gateway.connect()
    await sender.say("m1")
    await settle()
    for _ in range(2):
        sender.send(
            "chat.message",
            message_id="m2",
            previous_message_id="m1",
            replaces="m1",
            payload={"text": "again"},
        )
        await settle()
    told = other.transport.of_type("session.message")
    assert [(each["message_id"], each.get("replaces")) for each in told] == [
        ("m1", None),
        ("m2", "m1"),
    ]


async def test_a_client_hears_how_many_messages_the_model_is_not_told() -> None:
    gateway = Gateway(Limits(history_bytes=4))
    client = gateway.connect()
    for number in range(3):
        await client.say(f"m{number}", f"m{number - 1}" if number else None)
        await settle()
        gateway.call.push("ok")
        gateway.call.finish()
        await settle()
    starts = client.transport.of_type("chat.response.start")
    told = [(it.get("history_dropped", 0), it.get("history_dropped_by")) for it in starts]
    assert told == [(0, None), (0, None), (1, "server")]


async def test_a_conversation_that_its_model_refuses_as_too_long_is_told_without_its_oldest() -> (
    None
):
    gateway = Gateway()
    client = gateway.connect()
    for number in range(5):
        await client.say(f"m{number}", f"m{number - 1}" if number else None)
        await settle()
        if number < 4:
            gateway.call.push("ok")
            gateway.call.finish()
            await settle()
    gateway.call.fail(refusal("prompt is too long", status=400))
    await settle()
    assert [turn.text for turn in gateway.call.request.turns] == ["hi", "ok", "hi"]
    first, again = client.transport.of_type("chat.response.start")[-2:]
    assert "history_dropped" not in first
    assert again == first | {
        "status": "streaming",
        "history_dropped": 3,
        "history_dropped_by": "model",
    }
    gateway.call.push("fine")
    gateway.call.finish()
    await settle()
    assert client.transport.of_type("chat.response.delta")[-1]["delta"] == "fine"
    assert client.transport.of_type("chat.response.completed")[-1]["finish_reason"] == "stop"


async def test_the_last_exchange_is_never_left_out_and_then_the_refusal_is_told() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say("m0")
    await settle()
    gateway.call.push("ok")
    gateway.call.finish()
    await settle()
    await client.say("m1", "m0")
    await settle()
    gateway.call.fail(refusal("prompt is too long", status=400))
    await settle()
    assert len(gateway.source.calls) == 2
    (failed,) = client.transport.of_type("chat.response.error")
    assert failed["error"]["code"] == "context_length_exceeded"
