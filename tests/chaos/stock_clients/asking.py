"""The answers that stock clients ask for while their connections are cut and nodes are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager
from random import Random

from tests.chaos.answer_check import Problem
from tests.chaos.faults import Fault, Scene
from tests.chaos.node import Node
from tests.chaos.outcome import Cause
from tests.chaos.plan import Plan
from tests.chaos.script import Script
from tests.chaos.stock_clients.comparison import problems_of
from tests.chaos.stock_clients.driver import Driver, Told
from tests.chaos.stock_clients.protocols import PROTOCOLS, Protocol
from tests.chaos.window import Window

_PROCESSES = 2
"""Of drivers, at least one for each protocol."""
_CUT_EVERY_SECONDS = 0.25
# Of both ends of each connection: an answer of 40 s is cut about three times.
_CUT_SHARE = 0.01
_CUT = frozenset(
    {
        *("APIConnectionError", "RemoteProtocolError", "ReadError", "ConnectError"),
        *("UND_ERR_SOCKET", "ECONNRESET", "no end"),
    }
)
"""What clients raise where a connection is broken."""


class Asking:
    """So many answers by the stock clients of some protocols."""

    def __init__(self, scene: Scene, protocols: Sequence[Protocol]) -> None:
        self._plan = scene.plan
        self._window = scene.window
        self._tell = scene.tell
        self._random = Random(scene.plan.seed)
        self._protocols = protocols
        self._drivers: dict[str, list[Driver]] = {}
        self._processes = max(1, _PROCESSES // len(protocols))
        self._folder = scene.folder
        self._url = scene.system.url
        self.open = 0
        """Questions that were asked and not answered yet."""

    async def __aenter__(self) -> Asking:
        await asyncio.gather(*(self._start(protocol) for protocol in self._protocols))
        return self

    async def __aexit__(self, *_: object) -> None:
        drivers = [driver for drivers in self._drivers.values() for driver in drivers]
        await asyncio.gather(*(driver.stop() for driver in drivers))

    async def ask(self, number: int) -> None:
        """One question, at its moment, and what came of it."""
        plan, protocol = self._plan, self._protocols[number % len(self._protocols)]
        turn = number // len(self._protocols)
        way = protocol.ways[turn % len(protocol.ways)]
        script = self._script(f"{plan.run}.{protocol.name}.{number}")
        question = {
            "name": script.key,
            "text": script.question,
            "way": way,
            "seconds": script.seconds + plan.patience_seconds,
        }
        await asyncio.sleep(plan.ramp_seconds * number / plan.answers)
        self.open += 1
        told = await self._drivers[protocol.name][turn // len(protocol.ways) % self._processes].ask(
            question
        )
        self.open -= 1
        self._count(script, way, told)

    async def _start(self, protocol: Protocol) -> None:
        log = self._folder / f"{protocol.name}.log"
        started = (Driver.start(protocol, self._url, log) for _ in range(self._processes))
        self._drivers[protocol.name] = await asyncio.gather(*started)

    def _script(self, key: str) -> Script:
        gap_ms = self._random.randint(*self._plan.gap_ms)
        tokens = round(1000 * self._random.uniform(*self._plan.answer_seconds) / gap_ms)
        aside = tokens // 5
        return Script(key, tokens - 2 * aside, gap_ms, 16, reasoning=aside, call=aside)

    def _count(self, script: Script, way: str, told: Told) -> None:
        window, problems = self._window, problems_of(script, told)
        window.answers += 1
        window.characters += sum(len(str(value)) for value in told.said.values())
        window.vias[way] += 1
        window.problems.update(problem.kind for problem in problems)
        for code, times in told.errors.items():
            if code in _CUT:
                window.turns[Cause.CUT] += times
            else:
                window.refusals[code] += times
        if problems:
            self._tell(_story(script, way, told, problems))


def fault_of(*protocols: Protocol) -> Fault:
    """Stock clients ask; their connections are cut at random places, and owners are killed."""

    async def strike(scene: Scene) -> None:
        plan, window, model = scene.plan, scene.window, scene.system.model
        before = (await model.calls())["calls"]
        async with (
            Asking(scene, protocols) as asking,
            _cutting(scene),
            asyncio.TaskGroup() as answers,
        ):
            for number in range(plan.answers):
                answers.create_task(asking.ask(number))
            await asyncio.sleep(plan.ramp_seconds)
            window.in_flight = asking.open
            for _ in range(plan.lost_owners):
                await _lose(await _owner_of_most(scene), plan)
                await scene.system.until_healthy()
        _count_calls(window, (await model.calls())["calls"].keys(), before.keys(), plan.answers)

    return strike


STOCK_CLIENT_FAULTS: dict[str, Fault] = {
    **{protocol.name: fault_of(protocol) for protocol in PROTOCOLS},
    "stock-clients": fault_of(*PROTOCOLS),
}
"""Each brings a load of its own."""


@asynccontextmanager
async def _cutting(scene: Scene) -> AsyncIterator[None]:
    """Connections between clients and nodes are reset at random, wherever they are."""

    async def cut() -> None:
        links = [node.client_link for node in scene.system.nodes.values()]
        while True:
            await scene.system.network.reset(links, _CUT_SHARE)
            await asyncio.sleep(_CUT_EVERY_SECONDS)

    cutting = asyncio.create_task(cut())
    try:
        yield
    finally:
        cutting.cancel()


def _count_calls(window: Window, calls: Set[str], before: Set[str], asked: int) -> None:
    """Look at the keys of the model's calls: `<response>:<epoch>:<attempt>`.

    Args:
        before: those of other faults. Their answers may still be taken over.
    """
    others = {key.rsplit(":", 2)[0] for key in before}
    parts = [key.rsplit(":", 2) for key in calls]
    parts = [part for part in parts if part[0] not in others]
    window.response_ids |= {response_id for response_id, _, _ in parts}
    taken_over = {response_id for response_id, epoch, _ in parts if epoch != "1"}
    window.remarks.append(f"{len(taken_over):,} answers were taken over from killed nodes")
    if len(window.response_ids) != asked or not taken_over:
        window.misses.append(
            f"{len(window.response_ids):,} responses for {asked:,} questions, {len(taken_over):,} "
            "of them taken over"
        )


async def _owner_of_most(scene: Scene) -> Node:
    """The node that runs most answers: the load balancer may have sent them all to one."""
    nodes = list(scene.system.nodes.values())
    running = [(await node.metrics()).value("evenflow_generations_running") for node in nodes]
    return nodes[running.index(max(running))]


async def _lose(node: Node, plan: Plan) -> None:
    node.kill()
    await asyncio.sleep(plan.lease_seconds + 2)
    await node.start()


def _story(script: Script, way: str, told: Told, problems: Sequence[Problem]) -> str:
    story = (
        f"{told.name} by {way}, {told.connections} connections, errors {dict(told.errors) or 0} "
        f"({script.question})"
    )
    return story + "".join(
        f"\n    {problem.kind.upper()}: {problem.detail}" for problem in problems
    )
