from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from evenflow.stream_core.base.errors import Overloaded
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls
from tests.unit.fargate_handler.measured import metrics_of

BUSY_SECONDS = 0.012  # a turn that leaves each lane its least, or little more


class Loop:
    """Counts turns of the event loop, and who went on in which."""

    def __init__(self) -> None:
        # Turns are not longer on a busy machine.
        self.turns = AddressTurns(lambda: self.number * BUSY_SECONDS)
        self.number = 0
        self.went_on: list[tuple[str, int]] = []

    async def ask(self, address: str, credentials: str = "") -> None:
        await self.turns.wait(address, credentials)
        self.went_on.append((credentials or address, self.number))

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.number += 1


@pytest.fixture
async def loop() -> AsyncIterator[Loop]:
    loop = Loop()
    counting = asyncio.create_task(loop.count())
    yield loop
    counting.cancel()


async def test_what_one_address_asks_at_once_is_spread_over_turns_and_others_do_not_wait(
    loop: Loop,
) -> None:
    many = [asyncio.create_task(loop.ask("many")) for _ in range(40)]
    one = asyncio.create_task(loop.ask("one"))
    await asyncio.gather(*many, one)
    in_turn = [number for address, number in loop.went_on if address == "many"]
    assert max(map(in_turn.count, in_turn)) <= 4
    order = [address for address, _ in loop.went_on]
    assert order.index("one") <= 2, "all others of the many come later"
    assert in_turn == sorted(in_turn)


async def test_handshakes_of_one_address_share_turns_and_leave_time_for_requests(
    loop: Loop,
) -> None:
    await asyncio.sleep(0)
    in_turn, last = list[int](), asyncio.Event()

    def handshake() -> bool:
        in_turn.append(loop.number)
        if len(in_turn) == 41:
            last.set()
        return True

    for _ in range(41):
        loop.turns.call("proxy", handshake)
    await loop.ask("proxy", "between the handshakes")
    assert len(in_turn) < 40
    await last.wait()
    assert max(map(in_turn.count, in_turn)) <= 12
    assert in_turn[-1] - in_turn[0] < 39, "more than one each turn, however slow this machine is"


async def test_of_one_address_those_with_other_credentials_come_between(loop: Loop) -> None:
    asked = ["many"] * 40 + ["one"] * 2 + ["other"]
    await asyncio.gather(*(loop.ask("proxy", credentials) for credentials in asked))
    order = [credentials for credentials, _ in loop.went_on]
    at_once = order.index("one")
    assert at_once <= 4
    assert order[at_once : at_once + 4] == ["one", "other", "many", "one"]
    assert order[at_once + 4 :] == ["many"] * (39 - at_once)


async def test_those_that_wait_go_first() -> None:
    turns, order = AddressTurns(), list[int]()

    async def ask(number: int) -> None:
        await turns.wait("a")
        order.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(20)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(ask(20)))
    await asyncio.gather(*tasks)
    assert order == list(range(21))


async def test_who_leaves_while_it_waits_holds_nobody_up(loop: Loop) -> None:
    tasks = [asyncio.create_task(loop.ask("a")) for _ in range(40)]
    await asyncio.sleep(0)
    for task in tasks[8:30]:
        task.cancel()
    await asyncio.gather(*tasks[:8], *tasks[30:])
    assert len(loop.went_on) == 18


async def test_an_address_that_rests_leaves_nothing_behind(loop: Loop) -> None:
    for _ in range(20):
        await asyncio.gather(*(loop.ask("a") for _ in range(20)))
        await asyncio.sleep(0)
    for lane in (loop.turns._requests, loop.turns._handshakes):
        assert not lane.is_in_use
        assert (lane._used_seconds, lane._waiting, lane._counts) == ({}, {}, {})


class Clock:
    """A clock and an event loop of the test: each turn takes as long as the test says."""

    def __init__(self, turn_seconds: float) -> None:
        self.now = 0.0
        self.turns = AddressTurns(lambda: self.now)
        self.turn_seconds = turn_seconds
        self.started: list[tuple[str, float]] = []

    def handshake(self, address: str, *, is_there: bool = True) -> float | None:
        """One more handshake. Returns after how many seconds it should come again, if rejected."""

        def begin() -> bool:
            self.started.append((address, self.now))
            return is_there

        try:
            self.turns.call(address, begin)
        except Overloaded as full:
            if (full.status, full.code) != (503, "reconnect_storm"):
                raise
            return int(full.to_object()["retry_after_ms"]) / 1000
        return None

    async def turn(self) -> int:
        """One turn of the loop. Returns the handshakes that it started."""
        before = len(self.started)
        self.now += self.turn_seconds
        await asyncio.sleep(0)
        return len(self.started) - before


async def test_handshakes_of_many_addresses_share_one_part_of_a_turn() -> None:
    clock = Clock(turn_seconds=0.004)
    for number in range(400):
        clock.handshake(f"a{number}")
    assert len(clock.started) == 8
    clock.turn_seconds = BUSY_SECONDS
    assert [await clock.turn() for _ in range(5)] == [12] * 5


async def test_what_deliveries_leave_of_a_turn_is_for_handshakes() -> None:
    clock = Clock(turn_seconds=0.002)
    for number in range(100):
        clock.handshake(f"a{number}")
    assert len(clock.started) == 8, "they took the whole turn"
    assert await clock.turn() == 40


async def test_a_longer_turn_of_the_loop_starts_more_handshakes_up_to_a_bound() -> None:
    for turn_seconds, expected in ((0.010, 10), (0.032, 32), (10.0, 40)):
        clock = Clock(turn_seconds)
        for _ in range(300):
            clock.handshake("proxy")
        assert await clock.turn() == expected, turn_seconds


async def test_requests_and_handshakes_of_one_address_do_not_wait_for_each_other() -> None:
    clock = Clock(turn_seconds=0.03)
    requests = [
        asyncio.create_task(clock.turns.wait("proxy", f"key {number}")) for number in range(300)
    ]
    await asyncio.sleep(0)
    for _ in range(100):
        clock.handshake("proxy")
    for _ in range(4):
        await clock.turn()
    assert len(clock.started) == 100
    done = sum(request.done() for request in requests)
    assert done >= 4 * 3, "a long turn starts several requests, too"
    for request in requests:
        request.cancel()


async def test_requests_that_read_count_less() -> None:
    clock = Clock(turn_seconds=BUSY_SECONDS)
    reads = [asyncio.create_task(clock.turns.wait("a", str(n), reads=True)) for n in range(80)]
    await asyncio.sleep(0)
    for _ in range(2):
        await clock.turn()
    assert 3 * 4 < sum(read.done() for read in reads) <= 3 * 16
    await asyncio.gather(*reads)


async def test_clients_that_are_gone_take_no_time() -> None:
    clock = Clock(turn_seconds=0.004)
    for _ in range(8):
        clock.handshake("proxy")
    for _ in range(500):
        clock.handshake("proxy", is_there=False)
    clock.handshake("proxy")
    assert await clock.turn() == 501
    waiting = [asyncio.create_task(clock.turns.wait("proxy")) for _ in range(300)]
    await asyncio.sleep(0)
    for task in waiting[1:-1]:
        task.cancel()
    for _ in range(3):
        await clock.turn()
    assert waiting[-1].done()


async def test_a_handshake_that_would_wait_too_long_is_rejected_and_its_time_is_true() -> None:
    clock = Clock(turn_seconds=0.02)  # a busy core: 20 handshakes each 20 ms
    for _ in range(2_000):
        clock.handshake("proxy")
    for _ in range(90):
        await clock.turn()  # it measures its pace
    waits = [clock.handshake("proxy") for _ in range(4_000)]
    promised = [clock.now + wait for wait in waits if wait is not None]
    accepted = 2_000 + 4_000 - len(promised)
    assert 1_000 < accepted - len(clock.started) < 1_700, "1.5 s"
    assert promised == sorted(promised), "one after the other, so that they don't return together"
    for at in promised:
        while clock.now < at:
            await clock.turn()
        assert clock.handshake("proxy") is None
    while clock.turns._handshakes.is_in_use:
        await clock.turn()
    assert len(clock.started) == 6_000
    assert clock.now < 7.0, "1,000 a second, and little time was wasted"


async def test_one_long_turn_does_not_postpone_everybody() -> None:
    clock = Clock(turn_seconds=0.004)
    for _ in range(1_000):
        clock.handshake("proxy")
    clock.turn_seconds = 0.5  # thousands of connections end at once
    await clock.turn()
    clock.turn_seconds = 0.004
    for _ in range(10):
        await clock.turn()
    waits = [clock.handshake("proxy") for _ in range(4_000)]
    last = max(wait for wait in waits if wait is not None)
    needed = len(waits) * clock.turn_seconds / 8
    assert needed / 2 < last < 3 * needed


async def test_a_flood_of_one_address_does_not_have_others_rejected() -> None:
    clock = Clock(turn_seconds=0.02)
    while clock.handshake("loud") is None:
        pass
    assert clock.handshake("quiet") is None
    await clock.turn()
    assert "quiet" in {address for address, _ in clock.started}


async def test_a_process_that_was_suspended_rejects_nobody_for_it() -> None:
    clock = Clock(turn_seconds=30.0)
    for _ in range(20):
        clock.handshake("proxy")
    await clock.turn()
    assert [clock.handshake("proxy") for _ in range(20)] == [None] * 20


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_what_machines_ask_waits_for_nobody(path: str) -> None:
    context = replace(Gateway().context, metrics=metrics_of(None))
    queue = [asyncio.create_task(context.accepted.turns.wait("127.0.0.1")) for _ in range(400)]
    await asyncio.sleep(0)
    answer = await Calls(context, CHANNEL).call("GET", path)
    assert (answer.status, queue[-1].done()) == (200, False)
    await asyncio.gather(*queue)
