"""A deployment: the node that gives an answer leaves while it runs. The same answer from a node
that stays is read beside it, and how long each page is silent is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from tests.e2e.rough_network import RoughNetwork
from tests.e2e_network.browser import ReaderPage, State
from tests.e2e_network.cells import Browser, Page, Transport
from tests.e2e_network.judge import longest_silence
from tests.e2e_network.stage import Outcome, Question, Stage, begin, shape
from tests.integration.deployment import LocalDeployment
from tests.integration.local_server import LocalServers

DRAINED = "drained"

READERS = (
    (Page.ELEMENT, Transport.WEBSOCKET),
    (Page.ELEMENT, Transport.SSE),
    (Page.ELEMENT, Transport.POLL),
    (Page.USE_CHAT, Transport.SSE),
)
_ANSWER_SECONDS, _GAP_MS = 25, 50.0
_READ_SECONDS = 3.0
_END_SECONDS = 180.0
# Nobody sees so short a silence, and times vary.
_LEAST_SILENCE, _MOST_TIMES = 0.3, 3


@dataclass(frozen=True)
class Drain:
    """How a node leaves.

    Args:
        seconds: what it has for that. Of an answer that takes longer, another node gives the rest.
    """

    name: str
    seconds: int


DRAINS = (Drain("answers end", 40), Drain("handed over", 5))


async def play(drain: Drain, stage: Stage) -> list[Outcome]:
    """Play it with each reader, and the same readers at nodes that stay."""
    async with AsyncExitStack() as stack:
        leaving, staying = await asyncio.gather(
            *(_Nodes.start(drain, stage, stack, name) for name in ("leaving", "staying"))
        )
        await asyncio.sleep(_READ_SECONDS)
        leaving.drain()
        drained, undrained = await asyncio.gather(leaving.end(), staying.end())
        usual = _usual_silences([state for state, _ in undrained])
        return [
            _outcome(drain, number, drained[number], undrained[number][1], usual[number])
            for number in range(len(READERS))
        ]


@dataclass(frozen=True)
class _Reader:
    """Who reads an answer, over which network; and what was wrong at its beginning."""

    page: ReaderPage
    network: RoughNetwork
    question: Question
    wrong: str | None


class _Nodes:
    """Two nodes with one store, and readers of the first one."""

    def __init__(self, name: str, deployment: LocalDeployment) -> None:
        self._name = name
        self._deployment = deployment
        self._readers: Sequence[_Reader] = ()

    @classmethod
    async def start(cls, drain: Drain, stage: Stage, stack: AsyncExitStack, name: str) -> _Nodes:
        """Start the nodes and their readers' answers."""
        servers = LocalServers()
        stack.push_async_callback(servers.stop)
        nodes = cls(stage.name(name), LocalDeployment(servers))
        settings = stage.settings(nodes._name) | {
            "drain_seconds": drain.seconds,
            "model_continues": True,
        }
        del settings["store"], settings["store_path"]
        async with stage.starting:
            await nodes._deployment.handlers(2, **settings)
        beginning = (nodes._begin(number, stage, stack) for number in range(len(READERS)))
        nodes._readers = await asyncio.gather(*beginning)
        return nodes

    async def _begin(self, number: int, stage: Stage, stack: AsyncExitStack) -> _Reader:
        page, transport = READERS[number]
        network = stack.enter_context(RoughNetwork())
        network.lead_to(*self._deployment.serve.started)
        shape(network, transport, page)
        name = f"{self._name}-{number}"
        reader = await stack.enter_async_context(stage.page(Browser.CHROMIUM, page, network, name))
        question = Question(name, round(_ANSWER_SECONDS * 1000 / _GAP_MS), _GAP_MS)
        return _Reader(reader, network, question, await begin(reader, question, transport))

    def drain(self) -> None:
        """The first node is asked to leave. The load balancer sends nobody there any more."""
        first, second = self._deployment.serve.started
        for reader in self._readers:
            reader.network.lead_to(second)
        first.leave()

    async def end(self) -> list[tuple[State, list[str]]]:
        """Wait for the ends; what each reader has seen, and what is wrong with it."""
        ended = []
        for reader in self._readers:
            await reader.page.until("reader.isOver()", _END_SECONDS)
            state = await reader.page.state()
            begun = [] if reader.wrong is None else [reader.wrong]
            ended.append((state, begun + _faults(state, reader.question)))
        return ended


def _faults(state: State, question: Question) -> list[str]:
    """Each word must be there once, whichever node has given it."""
    found = [f"given up: {state.problem}"] if state.problem is not None else []
    numbers = [word.rpartition(":")[2] for text in state.texts for word in text.split()]
    wanted = [str(number) for number in range(question.count)]
    if numbers != wanted:
        missing = set(wanted) - set(numbers)
        found.append(f"{len(missing)} words missing, {len(numbers) - len(set(numbers))} twice")
    return found


def _usual_silences(undrained: Sequence[State]) -> list[float]:
    """Seconds that this machine keeps each reader waiting without a drain. A busy one stops now
    this page, now that one, so a reader of a stream is compared with the longest wait of any.
    """
    silences = [longest_silence(state) for state in undrained]
    streams = [
        silence
        for (_, transport), silence in zip(READERS, silences, strict=True)
        if transport is not Transport.POLL
    ]
    return [
        silence if transport is Transport.POLL else max(streams)
        for (_, transport), silence in zip(READERS, silences, strict=True)
    ]


def _outcome(
    drain: Drain,
    number: int,
    drained: tuple[State, list[str]],
    wrong_undrained: list[str],
    usual: float,
) -> Outcome:
    page, transport = READERS[number]
    silence = longest_silence(drained[0])
    found = [*drained[1], *(f"without a drain: {wrong}" for wrong in wrong_undrained)]
    most = _MOST_TIMES * max(usual, _LEAST_SILENCE)
    name = f"{drain.name}  {page.value:7}  {transport.value}"
    return Outcome(DRAINED, name, silence, found, f"{usual:.2f} s without a drain", most)
