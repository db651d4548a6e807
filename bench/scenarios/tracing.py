"""What it costs to export traces, as many as by default: frames for each CPU second of the server,
with and without, side by side.

Both have answers of one length, which all begin and end while frames are counted: what a trace
costs, an answer costs once. The collector is in the load's process, and drops what it takes.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from unittest.mock import patch

from aiohttp import web

from bench import targets
from bench.awake import awake
from bench.client import all_idle, all_ready, open_connections
from bench.evenflow import evenflow
from bench.plan import Plan
from bench.report import Outcome, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.throughput import Throughput
from bench.verify import Tally

TOKEN_MS = 20
ANSWER_SECONDS = 6.0  # of 300 tokens, and some 120 frames
FINISH_SECONDS = 30.0


class Collector:
    """Takes spans over OTLP."""

    def __init__(self) -> None:
        self.url = ""
        self.bytes_taken = 0

    async def take(self, request: web.Request) -> web.Response:
        """`POST /v1/traces`."""
        self.bytes_taken += len(await request.read())
        return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Serve one until the block ends."""
    collector, app = Collector(), web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    without, traced = list[Throughput](), list[Throughput]()
    async with collecting() as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        for number in range(1, plan.tracing_rounds + 1):
            for environment, found in (({}, without), (endpoint, traced)):
                with patch.dict(os.environ, environment):
                    found.append(await _busy(plan, tally))
                plan.say(
                    f"tracing {number}/{plan.tracing_rounds}: "
                    f"{'with' if environment else 'without'}: {found[-1]}"
                )
    costs = [
        100 * (1 - with_it.per_core / alone.per_core)
        for alone, with_it in zip(without, traced, strict=True)
    ]
    if not collector.bytes_taken:
        raise RuntimeError("the server has exported nothing")
    return Outcome(
        "tracing",
        rows=[
            at_most(
                "frames for a CPU second that traces cost",
                median(costs),
                targets.TRACING_PERCENT,
                "%",
                f"rounds: {', '.join(f'{cost:.1f}' for cost in costs)}; {traced[-1]}",
            ),
            none_of("gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"),
        ],
        figures={
            "cost_percent": [round(cost, 2) for cost in costs],
            "without": [found.as_figures() for found in without],
            "traced": [found.as_figures() for found in traced],
        },
        faults=tally.faults,
    )


async def _busy(plan: Plan, tally: Tally) -> Throughput:
    async with evenflow() as server:
        connections = await open_connections(server.ws_url, session_tokens(plan.tracing_streams))
        await all_ready(connections)
        streams = Streams(connections, seconds=ANSWER_SECONDS, token_ms=TOKEN_MS)
        async with awake():
            usage = server.process.usage()
            await streams.begin(ANSWER_SECONDS)
            await all_idle(connections, FINISH_SECONDS)
            used = server.process.usage() - usage
    judged = streams.judge()
    tally += judged
    return Throughput(judged.deltas, used)
