"""The reader behind a stream of server-sent events, with its socket and time in the test's hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from evenflow.fargate_handler.gateway.connections.deadline import Deadline, TimedOut
from evenflow.fargate_handler.gateway.sse.event_reader import EventReader
from evenflow.stream_core.base.errors import RateLimited, TooSlow
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder, BlockObjects
from evenflow.stream_core.encoding.port import LogEncoder
from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.anthropic.encoder import AnthropicObjects
from evenflow.stream_core.protocols.evenflow.frames import EventEncoder
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.settle import settle
from tests.unit.stream_core.delivery.test_response_stream import new_stream

_LIMITS = Limits(lag_notice_seconds=1, lag_close_seconds=3, sse_heartbeat_seconds=2)


@dataclass
class Socket:
    """Takes everything until the test blocks it."""

    open: bool = True
    blocked: bool = False
    sent: list[bytes] = field(default_factory=list)

    def send(self, events: bytes) -> None:
        assert self.open, "nothing goes before the head"
        assert not self.blocked, "the log is the buffer"
        self.sent.append(events)

    @property
    def ids(self) -> list[int]:
        """Of the events."""
        return [int(number) for number in re.findall(rb"id: (\d+)", b"".join(self.sent))]

    @property
    def heartbeats(self) -> int:
        return self.sent.count(b": still here\n")


class Reading:
    """A response and its reader."""

    def __init__(
        self,
        limits: Limits = _LIMITS,
        *,
        is_open: bool = True,
        timeout_ms: int | None = None,
        objects: BlockObjects | None = None,
    ) -> None:
        self.gateway = Gateway(limits)
        self.clock = self.gateway.clock
        self.stream: ResponseStream = new_stream(self.clock, limits)
        self.socket = Socket(is_open)
        point = ResumePoint(0)
        self.encoder: LogEncoder = EventEncoder(self.stream, point, 16_384, joined=True)
        if objects is not None:
            self.encoder = BlockEncoder(objects, self.stream, point, 16_384)
        deadline = Deadline(timeout_ms, self.clock.monotonic)
        self.reader = EventReader(
            self.gateway.context, self.stream, self.encoder, self.socket, deadline
        )
        self.reader.attach()

    def pass_seconds(self, seconds: int, *, token: str = "") -> None:
        """Let time pass and the node look at slow readers; each second brings a token."""
        for _ in range(seconds):
            if token:
                self.stream.push(token)
            self.clock.turn(1)
            for watched in tuple(self.gateway.registry.slow):
                watched.look_at_readers(self.clock.now)

    def block(self) -> None:
        self.socket.blocked = True
        self.reader.block()

    def unblock(self) -> None:
        self.socket.blocked = False
        self.reader.unblock()


async def test_a_delta_goes_out_in_the_turn_in_which_it_is_delivered() -> None:
    here = Reading()
    here.stream.push("a")
    assert here.socket.ids == [0]
    here.stream.push("b")
    assert here.socket.ids == [0]
    here.clock.turn(0.06)
    assert here.socket.ids == [0, 1]
    assert here.gateway.context.measures.frames.value == 2


async def test_what_a_blocked_socket_missed_is_one_event() -> None:
    here = Reading()
    here.pass_seconds(1, token="a")
    here.block()
    here.pass_seconds(2, token="b")
    assert here.socket.ids == [0]
    here.unblock()
    assert here.socket.ids == [0, 2]
    assert b'"delta":"bb"' in here.socket.sent[-1]
    here.pass_seconds(1, token="c")
    assert here.socket.ids == [0, 2, 3]
    late_share = here.gateway.context.measures.late_share
    assert (late_share.part, late_share.whole) == (2, 4)
    assert not here.gateway.registry.slow


async def test_one_is_let_go_when_the_node_needs_its_memory_and_is_told_where_it_resumes() -> None:
    here = Reading()
    here.pass_seconds(1, token="a")
    here.block()
    here.reader.close_for_memory()
    await here.reader.woken()
    assert isinstance(here.reader.error, TooSlow)
    assert f"resume {here.stream.response_id} after 0" in here.reader.error.message


async def test_one_that_takes_too_little_is_let_go_and_may_be_told_where_it_resumes() -> None:
    here = Reading()
    here.pass_seconds(1, token="a")
    here.block()
    here.pass_seconds(2, token="b")
    assert here.reader.error is None
    here.pass_seconds(2)
    await here.reader.woken()
    error = here.reader.error
    assert isinstance(error, TooSlow)
    assert error.message.endswith("after 0")
    assert here.encoder.failure(error).startswith(b"event: error\nid: 0\n")
    measures = here.gateway.context.measures
    assert (measures.lagging.value, measures.too_slow.value) == (1, 1)
    here.unblock()
    assert here.socket.ids == [0], "what it would be given now, it gets when it comes back"


async def test_it_is_over_when_the_socket_has_taken_the_end() -> None:
    here = Reading()
    here.stream.push("a")
    here.block()
    here.stream.complete("stop", None)
    assert not here.reader.over
    here.unblock()
    await here.reader.woken()
    assert here.reader.over
    assert here.socket.sent[-1].startswith(b"event: chat.response.completed")


async def test_one_that_does_not_take_the_end_is_too_slow() -> None:
    here = Reading()
    here.stream.push("a")
    here.block()
    here.stream.complete("stop", None)
    here.pass_seconds(4)
    assert isinstance(here.reader.error, TooSlow)


async def test_before_the_head_it_only_wakes_the_request() -> None:
    here = Reading(is_open=False)
    here.stream.push("a")
    await here.reader.woken()
    assert here.socket.sent == []
    assert b'"delta":"a"' in here.reader.first()
    here.socket.open = True
    here.reader.unblock()
    here.pass_seconds(1, token="b")
    assert here.socket.ids == [1]


async def test_before_the_head_a_heartbeat_opens_the_stream() -> None:
    here = Reading(is_open=False)
    assert here.reader.first() == b""
    here.pass_seconds(3)
    await here.reader.woken()
    assert here.reader.first() == b": still here\n"


async def test_silence_is_filled() -> None:
    here = Reading()
    here.pass_seconds(3, token="a")
    assert here.socket.heartbeats == 0
    here.pass_seconds(5)
    assert here.socket.heartbeats == 2


async def test_silence_is_filled_too_where_the_protocol_leaves_out_what_comes() -> None:
    here = Reading(objects=AnthropicObjects("rsp_1", "demo", thinking=False))
    for _ in range(5):
        here.stream.push_part(Part(PartKind.REASONING, "Hm"))
        here.pass_seconds(1)
    assert here.socket.heartbeats == 2


async def test_a_blocked_socket_is_sent_no_heartbeat() -> None:
    here = Reading()
    here.stream.push("a")
    here.block()
    here.pass_seconds(6)
    assert here.socket.heartbeats == 0


async def test_the_clock_ends_it_at_its_deadline() -> None:
    here = Reading(timeout_ms=3_000)
    here.pass_seconds(2, token="a")
    assert here.reader.error is None
    here.pass_seconds(2)
    await here.reader.woken()
    assert isinstance(here.reader.error, TimedOut)
    here.pass_seconds(1, token="a")
    assert here.socket.ids == [0, 1]


async def test_a_copy_that_is_lost_gives_nothing_more() -> None:
    here = Reading()
    here.stream.push("a")
    here.stream.lose()
    await here.reader.woken()
    assert here.reader.left_behind
    here.pass_seconds(1, token="b")
    assert here.socket.ids == [0]


async def test_one_that_left_is_forgotten_by_clock_and_node() -> None:
    here = Reading()
    here.stream.push("a")
    here.block()
    here.pass_seconds(1, token="b")
    assert here.gateway.registry.slow
    here.reader.detach()
    assert (here.gateway.registry.slow, len(here.stream.readers)) == (set(), 0)
    here.socket.blocked = False
    here.pass_seconds(5)
    await settle()
    assert here.socket.heartbeats == 0
    assert here.gateway.context.measures.delivered.value == 1


async def test_a_response_has_so_many_readers() -> None:
    here = Reading(_LIMITS.model_copy(update={"readers_per_response": 1}))
    with pytest.raises(RateLimited):
        here.reader.attach()
