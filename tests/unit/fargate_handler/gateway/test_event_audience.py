"""Many readers of one response as server-sent events: what they are given alike is encoded once."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from evenflow.fargate_handler.gateway.connections.deadline import Deadline
from evenflow.fargate_handler.gateway.sse.event_reader import EventReader
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LogEncoder
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.evenflow.frames import EventEncoder
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.sse.test_event_reader import Socket
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.protocols.readers import ChunkClient, Client, EventClient

_MOST = 16_384


def _events(stream: ResponseStream) -> LogEncoder:
    return EventEncoder(stream, ResumePoint(0), _MOST, joined=True)


def _chunks(stream: ResponseStream, *, include_usage: bool = False) -> LogEncoder:
    objects = CompletionObjects(
        stream.response_id, 1_700_000_000, "demo", include_usage=include_usage, tools=False
    )
    return ChunkEncoder(objects, stream, ResumePoint(0), _MOST)


def _chunks_with_usage(stream: ResponseStream) -> LogEncoder:
    return _chunks(stream, include_usage=True)


class Crowd:
    """A response and the sockets of its readers."""

    def __init__(self) -> None:
        self.gateway = Gateway(Limits())
        self.clock = self.gateway.clock
        self.stream = new_stream(self.clock)
        self.readers: list[EventReader] = []

    def join(self, make: Callable[[ResponseStream], LogEncoder]) -> Socket:
        """Add a reader from the beginning."""
        socket = Socket()
        deadline = Deadline(None, self.clock.monotonic)
        reader = EventReader(self.gateway.context, self.stream, make(self.stream), socket, deadline)
        reader.attach()
        self.readers.append(reader)
        return socket

    def tell(self, *tokens: str) -> None:
        """Deliver each token as a delta."""
        for token in tokens:
            self.stream.push(token)
            self.clock.turn(0.06)


@pytest.mark.parametrize("make", [_events, _chunks])
async def test_each_delta_is_encoded_once_for_all(
    make: Callable[[ResponseStream], LogEncoder],
) -> None:
    crowd = Crowd()
    alone, *others = [crowd.join(make) for _ in range(10)]
    crowd.tell("a", "b", "c")
    for place in range(3):
        assert len({id(socket.sent[place]) for socket in others}) == 1
    assert {tuple(socket.sent) for socket in others} == {tuple(alone.sent)}


@pytest.mark.parametrize(("make", "client"), [(_events, EventClient), (_chunks, ChunkClient)])
async def test_whoever_comes_late_or_was_blocked_has_everything_once(
    make: Callable[[ResponseStream], LogEncoder], client: type[Client]
) -> None:
    crowd = Crowd()
    sockets = [crowd.join(make) for _ in range(3)]
    crowd.tell("a", "b")
    sockets[1].blocked = True
    crowd.readers[1].block()
    crowd.tell("c", "d")
    sockets.append(crowd.join(make))
    crowd.tell("e")
    sockets[1].blocked = False
    crowd.readers[1].unblock()
    crowd.tell("f")
    assert len({id(socket.sent[-1]) for socket in sockets[1:]}) == 1
    crowd.stream.complete("stop", None)
    for socket in sockets:
        told = client()
        told.hear(b"".join(socket.sent))
        assert (told.text, told.ends, told.failed) == ("abcdef", 1, False)


async def test_who_asked_otherwise_is_given_other_bytes() -> None:
    crowd = Crowd()
    sockets = [
        crowd.join(make) for make in (_events, _chunks, _chunks_with_usage) for _ in range(2)
    ]
    crowd.tell("a")
    events, _, plain, _, counting, _ = (socket.sent[0] for socket in sockets)
    assert events.startswith(b"event: chat.response.delta\nid: 0\n")
    assert "usage" not in orjson.loads(plain.split(b"data: ")[1])
    assert orjson.loads(counting.split(b"data: ")[1])["usage"] is None


async def test_the_next_owner_s_deltas_have_ids_of_their_own() -> None:
    crowd = Crowd()
    sockets = [crowd.join(_events) for _ in range(3)]
    crowd.tell("a")
    crowd.stream.log.restart(0, 2, epoch=2)
    crowd.tell("b", "c")
    assert all(
        socket.sent[-1].startswith(b"event: chat.response.delta\nid: 3.2\n") for socket in sockets
    )
    assert len({id(socket.sent[-1]) for socket in sockets}) == 1
