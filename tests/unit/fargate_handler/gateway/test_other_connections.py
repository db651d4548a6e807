"""What the other tabs of a session hear of its messages, and what a client hears of its own."""

from __future__ import annotations

from evenflow.stream_core.policy.limits import Limits
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
    assert [start.get("history_dropped", 0) for start in starts] == [0, 1, 2]
