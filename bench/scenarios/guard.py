"""What `make bench-guard` compares with its record: Evenflow's figures as ratios to those of a bare
sender, of nginx and of plain Python, which are measured in the same round.

Not part of `make bench`: it has the same figures at more connections, and absolute.
"""

import asyncio
import shutil
from collections.abc import Sequence
from time import monotonic

from bench import core_cost
from bench.awake import awake
from bench.client import Reader, all_idle, all_ready, open_connections, until
from bench.evenflow import Evenflow, evenflow
from bench.machine import LOAD_CORE, SERVER_CORE, pin
from bench.peers import measure as relays
from bench.peers.systems import SYSTEMS
from bench.plan import Plan
from bench.readers import TRANSPORTS, opened
from bench.report import Outcome
from bench.scenarios.features import ONE_TOKEN_SECONDS, answer_ms
from bench.scenarios.saturation import (
    bare_round,
    evenflow_round,
    held_interval,
    token_interval_ms,
)
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import Tally

FULL_CORE_SECONDS = 8.0  # of the streams that fill the core
STREAMS, TOKEN_MS = 1_000, 100
STREAM_SECONDS = 8.5
SPREAD_SECONDS = 3.0  # the streams begin evenly over this time: SSE needs two requests for each
WARM_UP_SECONDS, COUNTED_SECONDS = 1.5, 2.0
BEGIN_SECONDS, FINISH_SECONDS = 10.0, 30.0
RELAYED = relays.Plan(
    steps=(600,),
    step_seconds=2.0,
    cuts=0,
    trace_seconds=0.0,
    trace_speed=1.0,
    watched_seconds=0.0,
    waits_for_grace=False,
)
YARDSTICK_ALTERNATIONS = 3


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    rounds: dict[str, list[float]] = {}
    others_percent = 0.0
    for number in range(1, plan.rounds + 1):
        figures, disturbed_percent = await _round(plan, tally)
        others_percent = max(others_percent, disturbed_percent)
        for name, value in figures.items():
            rounds.setdefault(name, []).append(value)
        shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
        plan.say(f"guard {number}/{plan.rounds}: {shown}")
    return Outcome(
        "guard",
        figures={"rounds": rounds, "others_percent": others_percent},
        faults=tally.faults,
    )


async def _round(plan: Plan, tally: Tally) -> tuple[dict[str, float], float]:
    """The figures of one round, and the share of the server's core, in percent, that other
    programs used while it was full.
    """
    yardstick = _yardstick_seconds()
    bare = await bare_round(plan)
    interval_ms = token_interval_ms(plan)
    full = await evenflow_round(plan, tally, interval_ms, FULL_CORE_SECONDS, **held_interval(plan))
    figures = {
        "frames a CPU second, of bare picows": full.throughput.per_core / bare.throughput.per_core,
        "memory of an idle connection, of bare picows": full.idle_kb / bare.idle_kb,
    }
    bare_us = 1e6 / bare.throughput.per_core
    async with evenflow() as server:
        cpu_ms = await _first_token_ms(server, tally)
        figures["CPU of 1,000 first tokens, of plain Python"] = cpu_ms / yardstick
        for transport in TRANSPORTS:
            event_us = await _event_us(server, transport, tally)
            figures[f"CPU of an event, {transport}, of a bare frame"] = event_us / bare_us
    if shutil.which("nginx"):
        relayed = [await _relayed(key, tally) for key in ("evenflow", "nginx")]
        figures["relayed tokens a CPU second, /v1, of nginx"] = relayed[0] / relayed[1]
    usages = (bare.throughput.usage, full.throughput.usage)
    return figures, max(usage.server_others_percent for usage in usages)


def _yardstick_seconds() -> float:
    """On the server's core. The least of some, since it only ever takes longer."""
    pin(SERVER_CORE)
    seconds = min(core_cost.yardstick_seconds() for _ in range(YARDSTICK_ALTERNATIONS))
    pin(LOAD_CORE)
    return seconds


async def _first_token_ms(server: Evenflow, tally: Tally) -> float:
    """CPU milliseconds of the server for an answer of one token, where all are asked for at
    once.
    """
    connections = await open_connections(server.ws_url, session_tokens(STREAMS))
    await all_ready(connections)
    await answer_ms(server, connections, ONE_TOKEN_SECONDS, tally)  # warms it up
    milliseconds = await answer_ms(server, connections, ONE_TOKEN_SECONDS, tally)
    _leave(connections)
    return milliseconds


async def _event_us(server: Evenflow, transport: str, tally: Tally) -> float:
    """CPU microseconds of the server for a frame with text."""
    readers = await opened(transport, server, STREAMS)
    streams = Streams(readers, seconds=STREAM_SECONDS, token_ms=TOKEN_MS)
    async with awake():
        await streams.begin(SPREAD_SECONDS)
        await until(lambda: all(it.begun or it.failure for it in readers), BEGIN_SECONDS)
        await asyncio.sleep(WARM_UP_SECONDS)
        usage, begin = server.process.usage(), monotonic()
        await asyncio.sleep(COUNTED_SECONDS)
        used, end = server.process.usage() - usage, monotonic()
        await all_idle(readers, FINISH_SECONDS)
    tally += streams.judge()
    _leave(readers)
    return 1e6 * used.server / sum(len(it.delta_arrivals(begin, end)) for it in readers)


def _leave(readers: Sequence[Reader]) -> None:
    for reader in readers:
        reader.close()


async def _relayed(key: str, tally: Tally) -> float:
    """Tokens for each CPU second of a relay between the model server and as many readers.

    Raises:
        RuntimeError: it relayed none.
    """
    (system,) = (it for it in SYSTEMS if it.key == key)
    async with relays.started(system) as load:
        steps = await relays.growing(load, RELAYED)
    figures = relays.growth(load, steps)
    (step,) = figures["steps"]
    tally.gaps += figures["content"]["gaps"]
    tally.duplicates += figures["content"]["duplicates"]
    tally.wrong_texts += figures["content"]["wrong"]
    if not step["tokens_per_second"]:
        raise RuntimeError(f"{system.name} relayed nothing: {figures['failures']}")
    return float(step["tokens_per_core_second"])
