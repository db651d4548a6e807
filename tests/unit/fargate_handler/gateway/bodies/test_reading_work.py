"""Requests are read beside the event loop where they are large, in turns, and counted."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from evenflow.fargate_handler.gateway.bodies.reading_work import VALUE_BYTES, ReadingWork
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, RateLimited, TooLarge
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import Turn

_ONE, _OTHER = Line("acme", "203.0.113.7"), Line("acme", "203.0.113.8")
_LARGE = 1_000_000
_RATE = Limits(request_bytes_per_address_per_second=1_024)
_BURST = 16 * 1_024


class _Clock:
    """Seconds, in the test's hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _work(
    limits: Limits | None = None, clock: _Clock | None = None, memory: MemoryPart | None = None
) -> ReadingWork:
    memory = memory or MemoryPart(160 * _LARGE)
    return ReadingWork(limits or Limits(), clock or _Clock(), memory)


async def test_large_requests_are_read_in_another_thread_and_small_ones_at_once() -> None:
    work, here = _work(), threading.get_ident()
    assert await work.run(_ONE, 1_000, threading.get_ident) == here
    assert await work.run(_ONE, _LARGE, threading.get_ident) != here


async def test_the_event_loop_goes_on_while_a_large_request_is_read() -> None:
    work, going_on = _work(), threading.Event()
    read = asyncio.ensure_future(work.run(_ONE, _LARGE, going_on.wait, 10.0))
    await asyncio.sleep(0)
    going_on.set()
    assert await read


async def test_senders_take_turns() -> None:
    work, begin, order = _work(), threading.Event(), list[str]()

    def noting(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    first = asyncio.ensure_future(work.run(_ONE, _LARGE, begin.wait, 10.0))
    reads = []
    for line, names in ((_ONE, ("a1", "a2", "a3")), (_OTHER, ("b1",))):
        for name in names:
            reads.append(asyncio.ensure_future(work.run(line, _LARGE, noting(name))))
            await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(first, *reads)
    assert order.index("b1") <= 1


async def test_what_fails_gives_the_turn_on() -> None:
    work = _work()

    def fail() -> None:
        raise TooLarge("too large", code="message_too_large")

    with pytest.raises(TooLarge):
        await work.run(_ONE, _LARGE, fail)
    assert await work.run(_ONE, _LARGE, lambda: 1) == 1


async def test_bodies_count_with_their_values_for_the_rate_of_their_sender() -> None:
    clock = _Clock()
    work = _work(_RATE, clock)
    body = json.dumps({"x": [0] * 200}).encode()
    assert await work.read(_ONE, body, json.loads) == {"x": [0] * 200}
    with pytest.raises(RateLimited) as refused:
        work.check(_ONE)
    assert refused.value.code == "address_bytes"
    owed = VALUE_BYTES * 202 - _BURST
    assert refused.value.retry_after_ms == pytest.approx(1000 * owed / 1_024, abs=2)
    work.check(_OTHER)
    work.check(_ONE._replace(tenant="other"))
    clock.now = owed / 1_024 + 0.1
    work.check(_ONE)


async def test_no_body_is_read_beyond_its_bounds_nor_without_room() -> None:
    work, read = _work(Limits(values_per_request=1_024)), list[bytes]()
    body = json.dumps({"x": [0] * 2_000}).encode()
    with pytest.raises(TooLarge):
        await work.read(_ONE, body, read.append)  # type: ignore[arg-type]

    def full(_size: int) -> None:
        raise EvenflowError("full", code="node_memory")

    with pytest.raises(EvenflowError):
        await work.read(_ONE, b"{}", read.append, full)  # type: ignore[arg-type]
    assert read == []


# -- stored requests -------------------------------------------------------------------------------


def _name(response_id: str) -> tuple[str, Channel]:
    return response_id, Channel("acme", "openai/chat", "resp_1")


def _stored(turns: int, size: int = 10) -> str:
    return WholeRequest((Turn("user", "x" * size),) * turns).to_text()


class _Store:
    """Texts, and how often they were read."""

    def __init__(self, **texts: str) -> None:
        self._texts = texts
        self.reads = 0

    def of(self, name: str) -> Callable[[], Any]:
        async def text_of() -> str | None:
            self.reads += 1
            return self._texts.get(name)

        return text_of


async def test_a_stored_request_is_read_once() -> None:
    work, store, held = _work(), _Store(r1=_stored(4_000)), list[int]()
    for _ in range(3):
        request = await work.read_stored(_ONE, _name("r1"), store.of("r1"), held.append)
        assert request is not None
        assert len(request.turns) == 4_000
    assert store.reads == 1
    assert min(held) > 80_000, "who uses it has room for it, too"


async def test_one_that_is_no_longer_kept_is_none() -> None:
    assert await _work().read_stored(_ONE, _name("r1"), _Store().of("r1")) is None


async def test_what_is_kept_of_them_is_counted_and_bounded() -> None:
    memory = MemoryPart(1_600_000)
    work, store = _work(memory=memory), _Store(**{f"r{n}": _stored(1, 30_000) for n in range(6)})
    for name in ("r0", "r1", "r2", "r0", "r3", "r0", "r3"):
        await work.read_stored(_ONE, _name(name), store.of(name))
    assert store.reads == 4
    assert 90_000 < memory.bytes <= 100_000
    await work.read_stored(_ONE, _name("r1"), store.of("r1"))
    assert store.reads == 5, "it was used longest ago"
    large = _Store(large=_stored(1, 200_000))
    for _ in range(2):
        await work.read_stored(_ONE, _name("large"), large.of("large"))
    assert large.reads == 2


async def test_reading_them_counts_and_what_is_kept_does_not() -> None:
    work, store = _work(_RATE), _Store(r1=_stored(1, 2 * _BURST), r2=_stored(1))
    await work.read_stored(_ONE, _name("r1"), store.of("r1"))
    await work.read_stored(_ONE, _name("r1"), store.of("r1"))
    with pytest.raises(RateLimited):
        await work.read_stored(_ONE, _name("r2"), store.of("r2"))
    assert store.reads == 1


async def test_what_is_kept_of_one_channel_is_not_given_to_another() -> None:
    work, store = _work(), _Store(r1=_stored(1))
    await work.read_stored(_ONE, _name("r1"), store.of("r1"))
    other = "r1", Channel("other", "openai/chat", "resp_1")
    assert await work.read_stored(_ONE, other, store.of("nothing")) is None
