"""Connections in a process of their own, for a load that one process can't hold.

It holds them from an address of its own, since the ephemeral ports of one don't suffice, and
streams over a part of them.
"""

import asyncio
import gc
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

import numpy as np
import uvloop
from numpy.typing import NDArray

from bench.client import Connection, all_idle, open_connections, settled
from bench.machine import raise_descriptor_limit, unpin
from bench.processes import end_with_parent
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import Tally

AT_ONCE = 100  # connections: the next begin when these are open, however slow the machine is
FINISH_SECONDS = 60.0


@dataclass(frozen=True)
class Order:
    """What one process of the load does."""

    number: int  # of this process, from 0
    url: str
    secret: str  # of the server, for session tokens
    connections: int
    rate: float  # new connections a second
    streaming: int  # of the connections
    token_ms: int
    seconds: float  # the length of a stream
    spread_seconds: float  # the streams begin evenly over this time


@dataclass(frozen=True)
class Seen:
    """What its clients saw."""

    tally: Tally
    gaps_ms: NDArray[np.float64]  # between consecutive delta frames of a connection
    lost: int  # connections that ended before they should


class Crowd:
    """A process of the load, as the scenario has it. It ends early: EOFError."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def opened(self) -> int:
        """Wait until all connections are ready. Returns how many were tried twice."""
        again: int = await self._said()
        return again

    async def stream(self) -> Seen:
        """Have it stream, and judge what came."""
        self._pipe.send(None)
        seen: Seen = await self._said()
        return seen

    async def _said(self) -> Any:
        while not self._pipe.poll():  # noqa: ASYNC110 - a thread would outlive a failure
            await asyncio.sleep(0.05)
        return self._pipe.recv()


@contextmanager
def crowd(order: Order) -> Iterator[Crowd]:
    """Run a process of the load until the block ends."""
    context = get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_run, args=(order, theirs))
    process.start()
    theirs.close()
    try:
        yield Crowd(pipe)
    finally:
        process.kill()
        process.join()


def _run(order: Order, pipe: Pipe) -> None:
    end_with_parent(signal.SIGKILL)
    unpin()
    raise_descriptor_limit()
    gc.disable()
    uvloop.run(_play(order, pipe))


async def _play(order: Order, pipe: Pipe) -> None:
    connections, again = await _opened(order)
    pipe.send(again)
    await asyncio.to_thread(pipe.recv)
    pipe.send(await _streamed(order, connections))


async def _opened(order: Order) -> tuple[list[Connection], int]:
    """As many as are ordered, and how many of them were tried again: a busy machine may be late for
    a handshake.
    """
    connections: list[Connection] = []
    failed = 0
    while len(connections) < order.connections:
        tokens = session_tokens(min(AT_ONCE, order.connections - len(connections)), order.secret)
        source = f"127.0.0.{2 + order.number}"
        opened = await open_connections(order.url, tokens, order.rate, source)
        await settled(opened)
        connections += [connection for connection in opened if connection.ready]
        failed += sum(not connection.ready for connection in opened)
    return connections, failed


async def _streamed(order: Order, connections: Sequence[Connection]) -> Seen:
    streams = Streams(
        connections[: order.streaming],
        seconds=order.seconds,
        token_ms=order.token_ms,
        first_seed=order.number * order.streaming,
    )
    await streams.begin(order.spread_seconds)
    await asyncio.sleep(order.seconds)
    await all_idle(streams.connections, FINISH_SECONDS)
    arrivals = [connection.delta_arrivals(0, np.inf) for connection in streams.connections]
    return Seen(
        tally=streams.judge(),
        gaps_ms=1_000 * np.concatenate([np.diff(times) for times in arrivals]),
        lost=sum(connection.failure is not None for connection in connections),
    )
