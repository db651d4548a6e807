"""An answer with parts, as each transport gives it: all of it, in order, each index once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Content, Part, PartKind, joined
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, REALTIME, V1
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject, part_object
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, EventStream
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")

LIMITS = Limits(batch_tokens=1)
ANSWER: list[Content] = [
    Part(PartKind.REASONING, "They ask ", name="reasoning_content"),
    Part(PartKind.REASONING, "for a sum.", name="reasoning_content"),
    "I add",
    " these.",
    Part(PartKind.CALL, id="call_1", name="add"),
    Part(PartKind.ARGUMENTS, '{"a":1,'),
    Part(PartKind.ARGUMENTS, '"b":2}'),
    Part(PartKind.CALL_END),
    Part(PartKind.RESULT, "3", id="call_1", name="add"),
    Part(PartKind.DATA, '{"url":"https://example.org/"}', name="source"),
    "Three.",
]
WHOLE = [*joined(ANSWER)]


async def asked(protocol: str) -> tuple[Gateway, Client, ResponseStream]:
    """A client has asked, and the model has said nothing yet."""
    gateway = Gateway(LIMITS)
    client = gateway.connect(protocol)
    if protocol == REALTIME:
        client.send("start", id="m1", text="hi")
    else:
        await client.say()
    await settle()
    return gateway, client, gateway.stream(client)


async def answer(gateway: Gateway, stream: ResponseStream, *, pause: float = 0.1) -> None:
    """The model says the answer, piece by piece, and ends."""
    for content in ANSWER:
        if isinstance(content, str):
            stream.push(content)
        else:
            stream.push_part(content)
        gateway.clock.turn(pause)
    gateway.call.finish()
    await settle()


def heard(frames: list[Any]) -> Iterator[Content]:
    """What a client makes of frames of any dialect. It checks that each index came once."""
    following = 0
    for frame in frames:
        if isinstance(frame, list):
            _, last, said, *joined_from = frame
            first = joined_from[0] if joined_from else last
        elif frame["type"] in (
            *("chat.response.delta", "chat.response.event"),
            *("token", "event"),
        ):
            last, first = frame["index"], frame.get("from", frame["index"])
            said = frame.get("delta", frame.get("text")) if "kind" not in frame else frame
        else:
            continue
        assert first == following, frame
        following = last + 1
        yield said if isinstance(said, str) else PartObject.model_validate(said).to_part()


@pytest.mark.parametrize("protocol", [V1, COMPACT, REALTIME])
async def test_a_client_that_listens_is_given_each_part_as_it_comes(protocol: str) -> None:
    gateway, client, stream = await asked(protocol)
    await answer(gateway, stream)
    assert list(heard(client.frames)) == ANSWER
    assert client.frames[-1]["last_index"] == len(ANSWER) - 1


@pytest.mark.parametrize("protocol", [V1, COMPACT, REALTIME])
async def test_a_client_that_was_held_up_is_given_what_joins_joined(protocol: str) -> None:
    gateway, client, stream = await asked(protocol)
    pause, go_on = (
        ("pause", "resume")
        if protocol == REALTIME
        else (
            "response.pause",
            "response.continue",
        )
    )
    client.send(pause, response_id=stream.response_id)
    await answer(gateway, stream)
    assert list(heard(client.frames)) == []
    client.send(go_on, response_id=stream.response_id)
    await settle()
    assert list(heard(client.frames)) == WHOLE


async def test_a_part_costs_a_client_as_much_credit_as_a_delta() -> None:
    gateway, client, stream = await asked(V1)
    client.send("response.credit", response_id=stream.response_id, n=3)
    await answer(gateway, stream)
    assert [*joined(heard(client.frames))] == [*joined(ANSWER[:3])]
    client.send("response.credit", response_id=stream.response_id, n=2)
    await settle()
    assert [*joined(heard(client.frames))] == [*joined(ANSWER[:5])]


async def test_an_event_stream_has_events_for_parts() -> None:
    gateway, client, stream = await asked(V1)
    calls = Calls(gateway.context, client.connection.channel)
    listening = EventStream(calls, f"/chat/message/{stream.response_id}/events")
    await settle()
    await answer(gateway, stream)
    assert list(heard([data for _, _, data in listening.events])) == ANSWER
    kinds = [kind for kind, _, _ in listening.events]
    assert kinds[:3] == ["chat.response.event", "chat.response.event", "chat.response.delta"]
    assert [event_id for _, event_id, _ in listening.events][:2] == ["0", "1"]


async def test_a_poll_has_events_beside_the_text() -> None:
    gateway, client, stream = await asked(V1)
    await answer(gateway, stream)
    calls = Calls(gateway.context, client.connection.channel)
    path = f"/chat/message/{stream.response_id}"
    body = await calls.json("GET", f"{path}?from_index=3")
    assert (body["new_text"], body["chunk_index"]) == (" these.Three.", 10)
    assert body["full_text"] == "I add these.Three."
    assert body["events"] == [
        {"index": index, "at": len(" these."), **part_object(part)}
        for index, part in enumerate(ANSWER)
        if index > 3 and isinstance(part, Part)
    ]
    assert "events" not in await calls.json("GET", f"{path}?from_index=10")
