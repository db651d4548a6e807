"""How long a new connection takes: an open-loop schedule of connections, alone and beside running
streams.

The start times are fixed in advance and each connection is timed from its own to the arrival of
`session.ready`, so a server that stalls is charged for everyone who waited. Tokens are signed
before. A connection that fails counts with the time after which the client gives up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench import targets
from bench.client import (
    HANDSHAKE_TIMEOUT_SECONDS,
    Connection,
    all_idle,
    all_ready,
    open_connections,
    settled,
)
from bench.distributions import Percentiles, percentiles
from bench.evenflow import ADMISSION, evenflow, settings_row
from bench.plan import Plan
from bench.processes import Usage
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.verify import Tally

TOKEN_MS = 100
SPREAD_SECONDS = 5.0  # the streams begin evenly over this time
MARGIN_SECONDS = 3.0  # streams run so much longer than the set-up
FINISH_SECONDS = 60.0


@dataclass(frozen=True)
class Storm:
    """One burst of set-ups."""

    beside: int  # streams that were running
    connections: int
    failed: int
    setup: Percentiles  # ms
    usage: Usage
    tally: Tally  # of the streams beside it


async def measure(plan: Plan) -> Outcome:
    storms = []
    for beside in plan.setup_beside:
        plan.say(f"set-up: {plan.setup_rate:,} connections/s beside {beside:,} streams")
        storms.append(await _storm(plan, beside))
        plan.say(f"set-up: beside {beside:,} streams: {storms[-1].setup} ms")
    return _outcome(plan, storms)


async def _storm(plan: Plan, beside: int) -> Storm:
    count = min(round(plan.setup_rate * plan.setup_seconds), (plan.most_connections - beside) // 2)
    tokens = session_tokens(count)
    async with evenflow() as server:
        streaming = await open_connections(server.ws_url, session_tokens(beside))
        await all_ready(streaming)
        streams = Streams(streaming, seconds=plan.setup_seconds + MARGIN_SECONDS, token_ms=TOKEN_MS)
        await streams.begin(SPREAD_SECONDS)
        usage = server.process.usage()
        arriving = await open_connections(server.ws_url, tokens, plan.setup_rate)
        used = server.process.usage() - usage
        await settled(arriving)
        await all_idle(streaming, FINISH_SECONDS)
    failed = sum(not connection.ready for connection in arriving)
    return Storm(beside, count, failed, percentiles(_latencies(arriving)), used, streams.judge())


def _latencies(connections: Sequence[Connection]) -> list[float]:
    """From the scheduled start to `session.ready`, in ms."""
    return [
        1_000
        * (
            connection.arrivals[0] - connection.due
            if connection.ready
            else HANDSHAKE_TIMEOUT_SECONDS
        )
        for connection in connections
    ]


def _outcome(plan: Plan, storms: Sequence[Storm]) -> Outcome:
    tally = Tally()
    for storm in storms:
        tally += storm.tally
    return Outcome(
        "setup",
        rows=[
            *(_row(plan, storm) for storm in storms),
            none_of(
                "gaps, duplicates, wrong texts beside set-ups",
                tally.faults,
                f"{tally.deltas:,} deltas",
            ),
            settings_row("setup", **ADMISSION),
        ],
        figures={"rate": plan.setup_rate, "storms": [_figures(storm) for storm in storms]},
        faults=tally.faults,
    )


def _row(plan: Plan, storm: Storm) -> Row:
    where = f"beside {storm.beside:,} streams" if storm.beside else "alone"
    what = f"set-up at {plan.setup_rate:,}/s {where}"
    note = f"{storm.setup}; {storm.failed:,} failed; {storm.usage}"
    if storm.beside > targets.SETUP_BESIDE_STREAMS:
        return Row(f"{what}, p95", f"{storm.setup.p95:,.1f} ms ({note})")
    return at_most(f"{what}, p95", storm.setup.p95, targets.SETUP_P95_MS, "ms", note)


def _figures(storm: Storm) -> dict[str, object]:
    return {
        "streams_beside": storm.beside,
        "connections": storm.connections,
        "failed": storm.failed,
        "setup_ms": storm.setup.as_figures(),
        **storm.usage.as_figures(),
    }
