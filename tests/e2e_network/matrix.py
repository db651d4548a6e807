"""One outage in the middle of an answer, at one page: when text comes back, and whether the answer
is whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from tests.e2e.rough_network import Line, RoughNetwork
from tests.e2e_network.browser import ReaderPage
from tests.e2e_network.cells import (
    BACK_SECONDS,
    HAND_TURNED,
    MOST_TIMES,
    Cell,
    Outage,
    Sign,
    Transport,
)
from tests.e2e_network.judge import back_after
from tests.e2e_network.stage import Outcome, Question, Stage, begin, shape
from tests.integration.local_server import LocalServers
from tests.integration.server_process import Server

_SLOW_LINE = Line(bytes_per_second=1024)
_BACK_SECONDS = 60.0
_END_SECONDS = 180.0
# Of a slow line the model gives more than it takes.
_SLOW_WORDS, _SLOW_GAP_MS = 80, 10.0
_GAP_MS = 100.0
# The answer goes on for so long when the network is back.
_GOES_ON_SECONDS = 8
# To turn the longest outage takes about so long.
_TURNING_SECONDS = 20

PassTime = Callable[[ReaderPage, int], Awaitable[None]]


async def play(cell: Cell, server: Server, stage: Stage) -> list[Outcome]:
    """Play it.

    Args:
        server: of all cells whose time is real.
    """
    name = stage.name("cell")
    async with AsyncExitStack() as stack:
        pass_time: PassTime = _really_pass
        if cell.seconds == HAND_TURNED:
            server, pass_time = await _turned_server(stage, name, stack)
        network = stack.enter_context(RoughNetwork())
        network.lead_to(server)
        shape(network, cell.transport, cell.page)
        without = "sse" if cell.transport is Transport.POLL else ""
        page = await stack.enter_async_context(
            stage.page(cell.browser, cell.page, network, name, without)
        )
        question = _question(cell, name)
        group = cell.sign.value
        if wrong := await begin(page, question, cell.transport):
            return [Outcome(group, str(cell), None, [wrong])]
        await _go_down(cell, network, page)
        await pass_time(page, cell.seconds)
        can_reconnect = cell.sign is not Sign.BUTTON or await page.evaluate("reader.canReconnect()")
        up_at = _come_up(cell, network)
        if can_reconnect:
            await _signal(cell, page)
        changed = f"reader.changes.some(([at]) => at >= {up_at * 1000})"
        await page.until(f"{changed} || reader.isOver()", _BACK_SECONDS)
        await page.until("reader.isOver()", _END_SECONDS)
        state = await page.state()
        found = await stage.judged(cell.page, question, server, state)
        if not can_reconnect:
            found.append("no button to reconnect")
        back = back_after(state, up_at)
        if back is None and not found:
            back = 0.0  # all was there: it had come over the slow line
        most = MOST_TIMES * BACK_SECONDS[cell.sign]
        return [Outcome(group, str(cell), back, found, str(state.transport), most)]


def _question(cell: Cell, name: str) -> Question:
    is_turned, is_slow = cell.seconds == HAND_TURNED, cell.outage is Outage.SLOW
    # The model's time is real. Of the longest outage it has said all, unless the line is slow.
    turning_seconds = _TURNING_SECONDS if is_slow else 0
    seconds = _GOES_ON_SECONDS + (turning_seconds if is_turned else cell.seconds)
    if is_slow:
        return Question(name, _SLOW_WORDS * seconds, _SLOW_GAP_MS)
    return Question(name, round(seconds * 1000 / _GAP_MS), _GAP_MS)


async def _go_down(cell: Cell, network: RoughNetwork, page: ReaderPage) -> None:
    match cell.outage:
        case Outage.RESET:
            network.go_away()
        case Outage.BLACK_HOLE | Outage.HALF_OPEN:
            network.swallow()
        case Outage.SLOW:
            network.line = _SLOW_LINE
        case Outage.PORTAL:
            network.portal = True
            network.cut()
    # A device that has a Wi-Fi, or a bad line, has a network.
    if cell.sign is Sign.EVENT and cell.outage not in (Outage.SLOW, Outage.PORTAL):
        await page.set_online(online=False)


def _come_up(cell: Cell, network: RoughNetwork) -> float:
    """All is well again; returns since when, in seconds since 1970."""
    network.line, network.portal = Line(), False
    network.come_back()
    if cell.outage is Outage.HALF_OPEN:
        network.forget()
    else:
        network.let_flow()
    return time.time()


async def _signal(cell: Cell, page: ReaderPage) -> None:
    if cell.sign is Sign.EVENT:
        await page.set_online(online=True)
    if cell.sign is Sign.BUTTON:
        await page.evaluate("reader.reconnect()")


async def _really_pass(_page: ReaderPage, seconds: int) -> None:
    await asyncio.sleep(seconds)


async def _turned_server(stage: Stage, name: str, stack: AsyncExitStack) -> tuple[Server, PassTime]:
    """A server whose time is turned together with the page's. TCP's is real: what the network
    swallows is sent again sooner than it would be.
    """
    servers = LocalServers()
    stack.push_async_callback(servers.stop)
    async with stage.starting:
        server = await servers(**stage.settings(name))

    async def turn(page: ReaderPage, seconds: int) -> None:
        for _ in range(seconds):
            await servers.time_passes(1.0)
            await page.evaluate("reader.pass(1000)")

    return server, turn
