"""Very many at once: a burst of questions, and a storm of clients that come back.

In a burst the first askers should read while the last ones wait. After it, and after the storm, the
delivery interval should soon be the shortest again. The default limits take 1,000 answers at once
and queue 1,000; that burst is measured with them, the larger ones with the limits lifted.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from bench import targets
from bench.client import Connection, all_idle, all_ready, open_connections, reopen, until
from bench.distributions import Percentiles, percentiles
from bench.evenflow import Evenflow, evenflow
from bench.metrics_page import scrape
from bench.plan import Plan
from bench.processes import Usage
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import DELTA_START, Tally

BURST_SECONDS = 0.1
TOKEN_MS = 300  # 10,000 streams then need less than 80 % of a core
STREAM_SECONDS = 10.0
STORM_SPREAD_SECONDS = 5.0  # the streams of the storm begin evenly, so that it finds a calm node
STORM_BEGIN_SECONDS = 10.0  # for every stream to have begun
STORM_STREAM_SECONDS = 35.0
STORM_TOKEN_MS = 500
# It waits for what comes late, on a slow host: only what never comes is a fault.
FINISH_SECONDS = 180.0
LOOK_SECONDS = 0.1
WINDOW_MS = 50  # the default of EVENFLOW_BATCH_WINDOW_MS
DEFAULT_LIMITS = {"generations_per_node": 1_000, "queue_depth": 1_000}
NO_RATE = 1_000_000  # the default limit lets 500 clients a second come back


@dataclass
class Watch:
    """What the server said of its interval, and the CPU that it used, over time."""

    looks: list[tuple[float, float, float]] = field(default_factory=list)  # s, ms, load in %

    async def look(self, server: Evenflow) -> None:
        """Look until cancelled."""
        while True:
            page = await scrape(server.http_url)
            interval, load = (
                page.value("evenflow_clock_interval_ms"),
                page.value("evenflow_clock_load_percent"),
            )
            self.looks.append((monotonic(), interval, load))
            await asyncio.sleep(LOOK_SECONDS)

    def longest(self) -> float:
        """The longest interval, in ms."""
        return max(interval for _, interval, _ in self.looks)

    def back_after(self, end: float) -> float:
        """Seconds from `end` until the interval was the shortest; infinity if it never was."""
        back = (at for at, interval, _ in self.looks if at >= end and interval <= WINDOW_MS)
        return next(back, float("inf")) - end

    def figures(self, begin: float) -> list[list[float]]:
        """The looks, with seconds from `begin`."""
        return [[round(at - begin, 2), round(ms), round(load)] for at, ms, load in self.looks]


@dataclass(frozen=True)
class Crowd:
    """What very many at once found."""

    clients: int
    waited: Percentiles  # ms, until the first delta, or the first frame after coming back
    seconds: float  # until the last one had it
    back_seconds: float
    longest_ms: float
    usage: Usage
    looks: list[list[float]]

    def __str__(self) -> str:
        return (
            f"waited ms {self.waited}; interval up to {self.longest_ms:.0f} ms, back after "
            f"{self.back_seconds:.1f} s; {self.usage}"
        )


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    with_defaults = await _burst(plan, 1_000, tally, **DEFAULT_LIMITS)
    bursts = [await _burst(plan, count, tally) for count in plan.burst_counts]
    storm = await _storm(plan, tally)
    return _outcome(with_defaults, bursts, storm, tally)


async def _burst(plan: Plan, count: int, tally: Tally, **limits: Any) -> Crowd:
    plan.say(f"burst: {count:,} questions in {BURST_SECONDS * 1000:.0f} ms {limits or ''}")
    async with evenflow(**limits) as server:
        connections = await open_connections(server.ws_url, session_tokens(count))
        await all_ready(connections)
        streams = Streams(connections, seconds=STREAM_SECONDS, token_ms=TOKEN_MS)
        async with _watched(server) as watch:
            usage, begin = server.process.usage(), monotonic()
            asked = await streams.begin(BURST_SECONDS)
            await all_idle(connections, STREAM_SECONDS + FINISH_SECONDS)
            used = server.process.usage() - usage
        first = np.array([_first_after(it, DELTA_START, 0.0) for it in connections])
        crowd = _crowd(first, np.array(asked), begin, watch, used)
    tally += streams.judge()
    plan.say(f"burst: {count:,}: {crowd}")
    return crowd


async def _storm(plan: Plan, tally: Tally) -> Crowd:
    count = plan.connections
    plan.say(f"burst: {count:,} clients are cut and come back at once")
    async with evenflow(returning_connections_per_second=NO_RATE) as server:
        tokens = session_tokens(count)
        connections = await open_connections(server.ws_url, tokens)
        await all_ready(connections)
        streams = Streams(connections, seconds=STORM_STREAM_SECONDS, token_ms=STORM_TOKEN_MS)
        await streams.begin(STORM_SPREAD_SECONDS)
        # The load client resumes only answers that have begun.
        await until(lambda: all(it.begun for it in connections), STORM_BEGIN_SECONDS)
        async with _watched(server) as watch:
            usage, begin = server.process.usage(), monotonic()
            for connection in connections:
                connection.close()
            await reopen(connections, server.ws_url, tokens)
            await all_idle(connections, STORM_STREAM_SECONDS + FINISH_SECONDS)
            used = server.process.usage() - usage
        came = np.array([_first_after(it, DELTA_START, it.due) for it in connections])
        crowd = _crowd(came, np.full(count, begin), begin, watch, used)
    tally += streams.judge()
    plan.say(f"burst: storm: {crowd}")
    return crowd


@asynccontextmanager
async def _watched(server: Evenflow) -> AsyncIterator[Watch]:
    watch = Watch()
    looking = asyncio.create_task(watch.look(server))
    await asyncio.sleep(2 * LOOK_SECONDS)
    try:
        yield watch
    finally:
        looking.cancel()


def _first_after(connection: Connection, start: bytes, moment: float) -> float:
    """When the first frame came that begins so; infinity if none did."""
    pairs = zip(connection.arrivals, connection.frames, strict=True)
    return next(
        (at for at, frame in pairs if at >= moment and frame.startswith(start)), float("inf")
    )


def _crowd(came: np.ndarray, asked: np.ndarray, begin: float, watch: Watch, usage: Usage) -> Crowd:
    got = np.isfinite(came)
    last = float(came[got].max())
    return Crowd(
        len(came),
        percentiles((came - asked)[got] * 1_000),
        last - begin,
        watch.back_after(last),
        watch.longest(),
        usage,
        watch.figures(begin),
    )


def _outcome(with_defaults: Crowd, bursts: Sequence[Crowd], storm: Crowd, tally: Tally) -> Outcome:
    rows: list[Row] = [
        Row("burst of 1,000 questions in 100 ms, default limits", str(with_defaults))
    ]
    for crowd in bursts:
        name = f"burst of {crowd.clients:,} questions in 100 ms (limits lifted)"
        rows += [
            at_most(
                f"{name}: first delta, p50 of p95",
                100 * crowd.waited.p50 / crowd.waited.p95,
                targets.BURST_P50_OF_P95_PERCENT,
                "%",
                str(crowd),
            ),
            at_most(
                f"{name}: interval back", crowd.back_seconds, targets.INTERVAL_BACK_SECONDS, "s"
            ),
        ]
    rows += [
        at_most(
            f"{storm.clients:,} cut clients come back at once: interval back",
            storm.back_seconds,
            targets.INTERVAL_BACK_SECONDS,
            "s",
            f"all back after {storm.seconds:.1f} s; {storm}",
        ),
        none_of(
            "burst and storm: gaps, duplicates, wrong texts",
            tally.faults,
            f"{tally.deltas:,} deltas",
        ),
    ]
    crowds = {"default_limits": with_defaults, "storm": storm} | {
        f"burst_{crowd.clients}": crowd for crowd in bursts
    }
    return Outcome(
        "burst",
        rows=rows,
        figures={name: _figures(crowd) for name, crowd in crowds.items()},
        faults=tally.faults,
    )


def _figures(crowd: Crowd) -> dict[str, object]:
    return {
        "clients": crowd.clients,
        "waited_ms": crowd.waited.as_figures(),
        "last_after_seconds": round(crowd.seconds, 2),
        "interval_back_seconds": round(crowd.back_seconds, 2),
        "interval_ms_and_load_percent": crowd.looks,
        **crowd.usage.as_figures(),
    }
