"""Answers of minutes, with default limits, over every transport that reads a log."""

from __future__ import annotations

import asyncio
import json

import pytest

from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.unit.fargate_handler.gateway.client_harness import Client, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, RecordingWriter
from tests.unit.settle import settle

_WORDS = [f"word{number} " for number in range(100)]
_WHOLE = "".join(_WORDS)


async def _pass(gateway: Gateway, client: Client, seconds: float) -> None:
    for _ in range(int(seconds * 10)):
        gateway.clock.turn(0.1)
        await settle()
    client.receive(kind=Opcode.PONG)


async def _answer(gateway: Gateway, client: Client, how: str) -> None:
    """200 seconds of words, or 40 of thinking and all of it at once."""
    if how == "words":
        for word in _WORDS:
            gateway.call.push(word)
            await _pass(gateway, client, 2.0)
    else:
        for _ in range(8):
            gateway.call.sink.alive()
            await _pass(gateway, client, 5.0)
        gateway.call.push(_WHOLE)
    gateway.call.finish()
    await settle()


@pytest.mark.parametrize("how", ["words", "thinking"])
async def test_a_long_answer_is_whole_over_every_transport(how: str) -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    calls = Calls(gateway.context, client.connection.channel)
    response_id = gateway.stream(client).response_id
    events = RecordingWriter()
    reading = asyncio.ensure_future(
        calls.call("GET", f"/chat/message/{response_id}/events", writer=events)
    )
    await settle()
    await _answer(gateway, client, how)
    await asyncio.wait_for(reading, 5)
    assert client.text() == _WHOLE
    (completed,) = client.transport.of_type("chat.response.completed")
    assert (completed["finish_reason"], completed["degraded"]) == ("stop", False)
    frames = [
        json.loads(line[6:])
        for line in events.written.decode().splitlines()
        if line.startswith("data: ")
    ]
    assert "".join(frame.get("delta", "") for frame in frames) == _WHOLE
    polled = await calls.json("GET", f"/chat/message/{response_id}")
    assert (polled["status"], polled["full_text"]) == ("completed", _WHOLE)
    assert len(gateway.source.calls) == 1, "nothing was cut and asked for again"
