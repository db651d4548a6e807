from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls
from tests.unit.fargate_handler.measured import metrics_of


class Loop:
    """Counts turns of the event loop, and who went on in which."""

    def __init__(self) -> None:
        self.turns = AddressTurns()
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
async def loop() -> Loop:
    return Loop()


async def test_what_one_address_asks_at_once_is_spread_over_turns_and_others_do_not_wait(
    loop: Loop,
) -> None:
    counting = asyncio.create_task(loop.count())
    many = [asyncio.create_task(loop.ask("many")) for _ in range(40)]
    one = asyncio.create_task(loop.ask("one"))
    await asyncio.gather(*many, one)
    counting.cancel()
    in_turn = [number for address, number in loop.went_on if address == "many"]
    assert max(map(in_turn.count, in_turn)) == 1
    assert loop.went_on.index(("one", 0)) == 1, "all others of the many come later"
    assert in_turn == sorted(in_turn)


async def test_handshakes_of_one_address_share_turns_and_leave_time_for_requests(
    loop: Loop,
) -> None:
    counting = asyncio.create_task(loop.count())
    await asyncio.sleep(0)
    in_turn, last = list[int](), asyncio.Event()
    for _ in range(40):
        loop.turns.call("proxy", lambda: in_turn.append(loop.number))
    loop.turns.call("proxy", last.set)
    await loop.ask("proxy", "between the handshakes")
    assert len(in_turn) < 40
    await last.wait()
    counting.cancel()
    assert max(map(in_turn.count, in_turn)) <= 8
    assert in_turn[-1] - in_turn[0] < 39, "more than one each turn, however slow this machine is"


async def test_of_one_address_those_with_other_credentials_come_between(loop: Loop) -> None:
    asked = ["many"] * 40 + ["one"] * 2 + ["other"]
    await asyncio.gather(*(loop.ask("proxy", credentials) for credentials in asked))
    order = [credentials for credentials, _ in loop.went_on]
    assert order[:6] == ["many", "many", "one", "other", "many", "one"]
    assert order[6:] == ["many"] * 37


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
    assert (loop.turns._waiting, loop.turns._used_seconds) == ({}, {})


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_what_machines_ask_waits_for_nobody(path: str) -> None:
    context = replace(Gateway().context, metrics=metrics_of(None))
    queue = [asyncio.create_task(context.accepted.turns.wait("127.0.0.1")) for _ in range(400)]
    await asyncio.sleep(0)
    answer = await Calls(context, CHANNEL).call("GET", path)
    assert (answer.status, queue[-1].done()) == (200, False)
    await asyncio.gather(*queue)
