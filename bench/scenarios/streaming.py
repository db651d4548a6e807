"""How evenly deltas arrive: every connection streams its own response at a 100 ms interval, from
one server core.

Jitter is |gap between two delta frames of a connection - 100 ms|, read where the client's frame
callback runs, so the client's own delays are in it. The bare sender at the same rate shows how
large those are. The interval is held at 100 ms; beside it stand the most streams at the default
window, which may lengthen, and as many as are admitted by default, at defaults alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from picows import WSMsgType

from bench import targets
from bench.awake import awake
from bench.client import Connection, all_idle, all_ready, open_connections, until
from bench.distributions import Percentiles, histogram_percentiles, percentiles
from bench.evenflow import ADMISSION, JITTER, Evenflow, evenflow, settings_row
from bench.metrics_page import scrape
from bench.plan import Plan
from bench.processes import Usage, child
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.timings import Timings, timings
from bench.verify import Tally
from evenflow.stream_core.base.limits import Limits
from tests.integration.server_process import free_port

INTERVAL_MS = 100
TOKEN_MS = 100  # a token is a frame
HELD = {"batch_window_ms": INTERVAL_MS, "batch_window_max_ms": INTERVAL_MS}
ADMITTED = Limits().generations_per_node
SPREAD_SECONDS = 5.0  # the streams begin evenly over this time
SETTLE_SECONDS = 2.0
BEGIN_SECONDS = 5.0  # for every stream to have begun
FINISH_SECONDS = 60.0  # for the last responses to end, late or not


@dataclass(frozen=True)
class Step:
    """One number of connections, measured."""

    connections: int
    client: Percentiles  # jitter in ms at the client
    server: (
        Percentiles  # jitter in ms where the server handed the frames to the sockets, from /metrics
    )
    timings: Timings
    frames_per_second: float
    usage: Usage
    tally: Tally

    def __str__(self) -> str:
        return f"jitter ms {self.client}, {self.frames_per_second:,.0f} frames/s, {self.usage}"


async def measure(plan: Plan) -> Outcome:
    steps = [await _step(plan, count, **ADMISSION, **HELD) for count in plan.jitter_counts]
    count = plan.jitter_counts[-1]
    window = await _step(plan, count, **ADMISSION)
    default = await _step(plan, min(count, ADMITTED))
    plan.say(f"streaming: the bare sender at the same rate to {count:,} connections")
    return _outcome(steps, window, default, await _bare_jitter(plan, count))


async def _step(plan: Plan, count: int, **settings: int) -> Step:
    """One count, on a server of its own: what it held of earlier answers would be in the way of
    the next.
    """
    plan.say(f"streaming: {count:,} connections, a frame each every {INTERVAL_MS} ms")
    async with evenflow(admission=settings) as server:
        connections = await open_connections(server.ws_url, session_tokens(count))
        await all_ready(connections)
        step = await _streamed(plan, server, connections)
    plan.say(f"streaming: {count:,} connections: {step}")
    return step


async def _streamed(plan: Plan, server: Evenflow, connections: Sequence[Connection]) -> Step:
    seconds = SPREAD_SECONDS + BEGIN_SECONDS + plan.jitter_seconds + 2 * SETTLE_SECONDS
    streams = Streams(connections, seconds=seconds, token_ms=TOKEN_MS)
    async with awake():
        await streams.begin(SPREAD_SECONDS)
        await until(lambda: all(it.begun for it in connections), BEGIN_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        before = await scrape(server.http_url)
        usage, opened = server.process.usage(), monotonic()
        await asyncio.sleep(plan.jitter_seconds)
        used, closed = server.process.usage() - usage, monotonic()
        after = await scrape(server.http_url)
    await all_idle(connections, FINISH_SECONDS)
    arrivals = [connection.delta_arrivals(opened, closed) for connection in connections]
    return Step(
        connections=len(connections),
        client=_jitter(arrivals),
        server=histogram_percentiles(before.buckets(JITTER), after.buckets(JITTER)),
        timings=timings(connections),
        frames_per_second=sum(map(len, arrivals)) / used.seconds,
        usage=used,
        tally=streams.judge(),
    )


async def _bare_jitter(plan: Plan, count: int) -> Percentiles:
    port = free_port()
    async with child(["bench.bare_sender", str(port)], ports=(port,)):
        connections = await open_connections(f"ws://127.0.0.1:{port}/ws", [""] * count)
        async with awake():
            connections[0].transport.send(WSMsgType.TEXT, str(INTERVAL_MS).encode())
            await asyncio.sleep(SPREAD_SECONDS + SETTLE_SECONDS)
            opened = monotonic()
            await asyncio.sleep(plan.jitter_seconds)
            closed = monotonic()
        return _jitter([connection.delta_arrivals(opened, closed) for connection in connections])


def _jitter(arrivals: Sequence[NDArray[np.float64]]) -> Percentiles:
    """In ms, over all consecutive pairs of all connections."""
    gaps = np.concatenate([np.diff(times) for times in arrivals])
    return percentiles(np.abs(1_000 * gaps - INTERVAL_MS))


def _outcome(steps: Sequence[Step], window: Step, default: Step, floor: Percentiles) -> Outcome:
    last = steps[-1]
    tally = Tally()
    for step in (*steps, window, default):
        tally += step.tally
    count = f"{last.connections:,} streams"
    return Outcome(
        "streaming",
        rows=[
            Row(
                f"{count}, {INTERVAL_MS} ms interval",
                f"{last.frames_per_second:,.0f} frames/s, {last.usage}",
            ),
            at_most(
                "client jitter p95",
                last.client.p95,
                targets.JITTER_P95_MS,
                "ms",
                f"{count}; bare sender {floor.p95:.1f}",
            ),
            at_most(
                "client jitter p99",
                last.client.p99,
                targets.JITTER_P99_MS,
                "ms",
                f"{count}; bare sender {floor.p99:.1f}",
            ),
            Row("server's own ws.delivery_jitter_ms", str(last.server)),
            Row(f"{count}", str(last.timings)),
            Row(f"{count}, default window", f"{window}; {window.timings}"),
            Row(
                f"{default.connections:,} streams, all at defaults", f"{default}; {default.timings}"
            ),
            none_of(
                "gaps", tally.gaps, f"{tally.deltas:,} deltas in {tally.responses:,} responses"
            ),
            none_of("duplicates", tally.duplicates),
            none_of(
                "wrong or unfinished texts",
                tally.wrong_texts + tally.unfinished,
                f"{tally.joined:,} joined deltas",
            ),
            settings_row("streaming", **ADMISSION, **HELD),
        ],
        figures={
            "interval_ms": INTERVAL_MS,
            "bare": floor.as_figures(),
            "steps": [_figures(step) for step in steps],
            "default_window": _figures(window),
            "defaults": _figures(default),
        },
        faults=tally.faults,
    )


def _figures(step: Step) -> dict[str, Any]:
    return {
        "connections": step.connections,
        "client_jitter_ms": step.client.as_figures(),
        "server_jitter_ms": step.server.as_figures(),
        "frames_per_second": round(step.frames_per_second),
        **step.timings.as_figures(),
        **step.usage.as_figures(),
        **asdict(step.tally),
    }
