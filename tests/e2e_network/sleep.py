"""A laptop that sleeps: its pages are frozen, their connections cut, and the server is killed and
started again meanwhile. On waking the answers must be whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rough_network import RoughNetwork
from tests.e2e_network.browser import ReaderPage
from tests.e2e_network.cells import Browser, Page, Transport
from tests.e2e_network.judge import Log, back_after
from tests.e2e_network.stage import Outcome, Question, Stage, begin
from tests.integration.server_process import ServerProcess

ASLEEP = "asleep"

_CLOCK = Path(__file__).parent / "clock_ahead"
_BY = {
    Page.ELEMENT: Transport.WEBSOCKET,
    Page.CLIENT: Transport.WEBSOCKET,
    Page.USE_CHAT: Transport.SSE,
}
_GAP_MS = 100.0
_MODEL_ENDS_SECONDS = 180.0
_WRITTEN_SECONDS = 1.5
_END_SECONDS = 180.0


@dataclass(frozen=True)
class Nap:
    """How long a laptop sleeps.

    Args:
        real_seconds: those that really pass. The other ones the clocks leap over: the server's when
            it starts again, the page's when it wakes.
        answer_seconds: how long the model speaks, most of it to nobody.
    """

    name: str
    seconds: int
    real_seconds: int
    answer_seconds: int


NAPS = (
    Nap("50 s", 50, 50, 42),
    Nap("10 min", 600, 15, 8),
    Nap("a night", 8 * 3_600, 15, 8),
)


async def play(nap: Nap, stage: Stage) -> list[Outcome]:
    """Play it with three pages of one laptop."""
    name = stage.name(f"asleep-{nap.seconds}")
    async with AsyncExitStack() as stack:
        network = stack.enter_context(RoughNetwork())
        server = await _start(stage, name, 0.0, None, stack)
        network.lead_to(server)
        readers = {
            page: (
                await stack.enter_async_context(
                    stage.page(Browser.CHROMIUM, page, network, f"{name}-{page.value}")
                ),
                Question(
                    f"{name}-{page.value}", round(nap.answer_seconds * 1000 / _GAP_MS), _GAP_MS
                ),
            )
            for page in Page
        }
        begun = await asyncio.gather(
            *(begin(reader, question, _BY[page]) for page, (reader, question) in readers.items())
        )
        before = [await reader.state() for reader, _ in readers.values()]
        asleep_at = time.monotonic()
        pages = [reader for reader, _ in readers.values()]
        for reader in pages:
            await reader.freeze()
        network.go_away()
        await server.until_metric("generations_running", 0, _MODEL_ENDS_SECONDS)
        await asyncio.sleep(_WRITTEN_SECONDS)
        logs = [
            await stage.read_back(page, question, server, state)
            for (page, (_, question)), state in zip(readers.items(), before, strict=True)
        ]
        server.kill()
        leap = float(nap.seconds - nap.real_seconds)
        await _start(stage, name, leap, server.port, stack)
        await asyncio.sleep(asleep_at + nap.real_seconds - time.monotonic())
        awake_at = await _wake(pages, network, leap)
        return [
            await _outcome(
                f"{nap.name:7}  {page.value}", reader, question, stage, awake_at, log, wrong
            )
            for (page, (reader, question)), log, wrong in zip(
                readers.items(), logs, begun, strict=True
            )
        ]


async def _start(
    stage: Stage, name: str, ahead_seconds: float, port: int | None, stack: AsyncExitStack
) -> ServerProcess:
    """Start the server, whose wall clock is ahead."""
    clock = {"PYTHONPATH": str(_CLOCK), "CLOCK_AHEAD_SECONDS": str(ahead_seconds)}
    log = stage.folder / f"{name}-{ahead_seconds:.0f}-{port is not None}.log"
    variables = stage.variables(name) | clock
    server = ServerProcess(log, variables, port)
    stack.callback(server.stop)
    return await asyncio.to_thread(server.wait_until_serving)


async def _wake(pages: Sequence[ReaderPage], network: RoughNetwork, leap: float) -> float:
    """The lid is opened; returns when, in seconds since 1970."""
    for reader in pages:
        await reader.evaluate(f"reader.sleep({leap * 1000})")
    network.come_back()
    awake_at = time.time()
    for reader in pages:
        await reader.thaw()
    return awake_at


async def _outcome(
    name: str,
    reader: ReaderPage,
    question: Question,
    stage: Stage,
    awake_at: float,
    log: Log,
    wrong: str | None,
) -> Outcome:
    await reader.until("reader.isOver()", _END_SECONDS)
    state = await reader.state()
    found = stage.faults_of(question, log, state)
    if wrong is not None:
        found.insert(0, wrong)
    return Outcome(ASLEEP, name, back_after(state, awake_at), found)
