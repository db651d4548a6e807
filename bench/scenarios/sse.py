"""The same answers by WebSocket, as server-sent events and as streams of `/v1`, side by side:
frames for each CPU second of the server, and how evenly frames arrive.

The transports take turns, each on a server of its own. Nothing is set but the limits on how much
is admitted, so a frame is cut as it is for users; a token comes seldom enough to be a frame of its
own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import monotonic

import numpy as np

from bench import targets
from bench.awake import awake
from bench.client import Reader, all_idle, until
from bench.distributions import Percentiles, percentiles
from bench.evenflow import ADMISSION, Evenflow, evenflow, settings_row
from bench.plan import Plan
from bench.processes import Usage
from bench.readers import COMPLETIONS, SSE, TRANSPORTS, WEBSOCKET, opened
from bench.report import Outcome, Row, at_least, at_most, none_of
from bench.streams import Streams
from bench.throughput import Throughput
from bench.timings import Timings, timings
from bench.verify import Tally

BUSY_STREAM_SECONDS = 40.0  # no answer ends while frames are counted
WARM_UP_SECONDS = 2.0
SPREAD_SECONDS = 10.0  # the streams begin evenly over this time
INTERVAL_MS = 100
EVEN_SPREAD_SECONDS = 10.0  # less than a connection without a request is kept
# The last answers may begin so late, and none ends while frames are counted. One read as events is
# two requests, some 2 ms of a core: on a slow host a thousand a second are more than the core.
LATE_SECONDS = 30.0
SETTLE_SECONDS = 2.0
BEGIN_SECONDS = 60.0  # for every answer to have begun, or not
# It waits for what comes late, on a slow host: only what never comes is a fault.
FINISH_SECONDS = 180.0


@dataclass(frozen=True)
class Even:
    """One transport, with a frame every 100 ms to each reader."""

    jitter: Percentiles  # |gap - 100 ms| at the client, in ms
    timings: Timings
    throughput: Throughput

    def __str__(self) -> str:
        return f"jitter ms {self.jitter}; {self.throughput}"


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    busy: dict[str, list[Throughput]] = {transport: [] for transport in TRANSPORTS}
    for number in range(1, plan.sse_rounds + 1):
        for transport in TRANSPORTS:
            busy[transport].append(await _busy(plan, transport, tally))
            plan.say(f"sse {number}/{plan.sse_rounds}: {transport}: {busy[transport][-1]}")
    even = {}
    for count in plan.sse_readers:
        for transport in TRANSPORTS:
            even[transport, count] = await _even(plan, transport, count, tally)
            plan.say(f"sse: {count:,} readers by {transport}: {even[transport, count]}")
    return _outcome(plan, busy, even, tally)


async def _busy(plan: Plan, transport: str, tally: Tally) -> Throughput:
    """While the server is busy, but not so that it lengthens its interval."""
    async with evenflow() as server:
        readers = await opened(transport, server, plan.sse_streams)
        streams = Streams(readers, seconds=BUSY_STREAM_SECONDS, token_ms=INTERVAL_MS)
        async with awake():
            await streams.begin(SPREAD_SECONDS)
            await _begun(readers)
            await asyncio.sleep(WARM_UP_SECONDS)
            usage, begin = server.process.usage(), monotonic()
            await asyncio.sleep(plan.saturation_seconds)
            used, end = server.process.usage() - usage, monotonic()
        _leave(readers, tally)
    tally += streams.judge(must_finish=False)
    return Throughput(sum(len(reader.delta_arrivals(begin, end)) for reader in readers), used)


async def _even(plan: Plan, transport: str, count: int, tally: Tally) -> Even:
    async with evenflow() as server:
        readers = await opened(transport, server, count)
        seconds = EVEN_SPREAD_SECONDS + LATE_SECONDS + plan.jitter_seconds + 2 * SETTLE_SECONDS
        streams = Streams(readers, seconds=seconds, token_ms=INTERVAL_MS)
        async with awake():
            await streams.begin(EVEN_SPREAD_SECONDS)
            await _begun(readers)
            await asyncio.sleep(SETTLE_SECONDS)
            used, begin, end = await _meanwhile(plan, server)
        await all_idle(readers, FINISH_SECONDS)
        _leave(readers, tally)
    tally += streams.judge()
    arrivals = [reader.delta_arrivals(begin, end) for reader in readers]
    gaps = 1_000 * np.concatenate([np.diff(times) for times in arrivals])
    return Even(
        percentiles(np.abs(gaps - INTERVAL_MS)),
        timings(readers),
        Throughput(sum(map(len, arrivals)), used),
    )


async def _meanwhile(plan: Plan, server: Evenflow) -> tuple[Usage, float, float]:
    usage, begin = server.process.usage(), monotonic()
    await asyncio.sleep(plan.jitter_seconds)
    return server.process.usage() - usage, begin, monotonic()


async def _begun(readers: Sequence[Reader]) -> None:
    await until(lambda: all(it.begun or it.failure for it in readers), BEGIN_SECONDS)


def _leave(readers: Sequence[Reader], tally: Tally) -> None:
    """Close the connections; one that was lost before counts as a fault."""
    tally.unfinished += sum(reader.failure is not None for reader in readers)
    for reader in readers:
        reader.close()


def _outcome(
    plan: Plan,
    busy: dict[str, list[Throughput]],
    even: dict[tuple[str, int], Even],
    tally: Tally,
) -> Outcome:
    count = f"{plan.sse_streams:,} streams"
    rates = {name: median(turn.per_core for turn in turns) for name, turns in busy.items()}
    limit = rates[WEBSOCKET]
    return Outcome(
        "sse",
        rows=[
            Row(
                f"WebSocket, {count}, busy",
                f"{limit:,.0f} frames/s a core ({busy[WEBSOCKET][-1]})",
            ),
            *(
                at_least(
                    f"{name}: frames/s a core, of the WebSocket's",
                    100 * rates[name] / limit,
                    targets.SHARE_OF_WEBSOCKET_PERCENT,
                    "%",
                    f"{rates[name]:,.0f} frames/s a core; {busy[name][-1]}",
                )
                for name in (SSE, COMPLETIONS)
            ),
            *(
                at_most(
                    f"{name}, {readers:,} readers: client jitter p95, {INTERVAL_MS} ms interval",
                    it.jitter.p95,
                    targets.JITTER_SSE_P95_MS,
                    "ms",
                    str(it),
                )
                for (name, readers), it in even.items()
            ),
            *(
                Row(f"{name}, {readers:,} readers", str(it.timings))
                for (name, readers), it in even.items()
            ),
            none_of(
                "gaps, duplicates, wrong texts by all", tally.faults, f"{tally.deltas:,} deltas"
            ),
            settings_row("sse", **ADMISSION),
        ],
        figures={
            "streams": plan.sse_streams,
            "busy": {name: [turn.as_figures() for turn in turns] for name, turns in busy.items()},
            "even": {
                f"{name}, {readers}": _even_figures(it) for (name, readers), it in even.items()
            },
        },
        faults=tally.faults,
    )  # fmt: skip


def _even_figures(it: Even) -> dict[str, object]:
    return {
        "client_jitter_ms": it.jitter.as_figures(),
        **it.timings.as_figures(),
        **it.throughput.as_figures(),
    }
