"""How long a new connection takes: an open-loop schedule of connections, alone and beside running
streams.

The start times are fixed in advance and each connection is timed from its own to the arrival of
`session.ready`, so a server that stalls is charged for everyone who waited. Tokens are signed
before. A connection that fails counts with the time after which the client gives up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench import targets
from bench.arrivals import arrive
from bench.client import all_idle, all_ready, open_connections
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
MARGIN_SECONDS = 3.0  # each stream runs so much longer than the set-up
FINISH_SECONDS = 60.0


@dataclass(frozen=True)
class Storm:
    """One burst of set-ups."""

    beside: int  # streams that were running
    rate: int  # connections a second
    connections: int
    failed: int
    setup: Percentiles  # ms
    usage: Usage
    tally: Tally  # of the streams beside it


async def measure(plan: Plan) -> Outcome:
    storms = []
    for rate, beside in plan.setups:
        plan.say(f"set-up: {rate:,} connections/s beside {beside:,} streams")
        storms.append(await _storm(plan, rate, beside))
        plan.say(f"set-up: beside {beside:,} streams: {storms[-1].setup} ms")
    return _outcome(storms)


async def _storm(plan: Plan, rate: int, beside: int) -> Storm:
    count = min(round(rate * plan.setup_seconds), (plan.most_connections - beside) // 2)
    tokens = session_tokens(count)
    async with evenflow() as server:
        streaming = await open_connections(server.ws_url, session_tokens(beside))
        await all_ready(streaming)
        seconds = SPREAD_SECONDS + plan.setup_seconds + MARGIN_SECONDS
        streams = Streams(streaming, seconds=seconds, token_ms=TOKEN_MS)
        await streams.begin(SPREAD_SECONDS)
        usage = server.process.usage()
        arrivals = await arrive(server.ws_url, tokens, rate)
        used = server.process.usage() - usage
        await all_idle(streaming, FINISH_SECONDS)
        for arrival in arrivals:
            arrival.close()
    failed = sum(arrival.ready_at is None for arrival in arrivals)
    waited = percentiles([1_000 * arrival.waited for arrival in arrivals])
    return Storm(beside, rate, count, failed, waited, used, streams.judge())


def _outcome(storms: Sequence[Storm]) -> Outcome:
    tally = Tally()
    for storm in storms:
        tally += storm.tally
    return Outcome(
        "setup",
        rows=[
            *(_row(storm) for storm in storms),
            none_of(
                "gaps, duplicates, wrong texts beside set-ups",
                tally.faults,
                f"{tally.deltas:,} deltas",
            ),
            settings_row("setup", **ADMISSION),
        ],
        figures={"storms": [_figures(storm) for storm in storms]},
        faults=tally.faults,
    )


def _row(storm: Storm) -> Row:
    where = f"beside {storm.beside:,} streams" if storm.beside else "alone"
    note = f"{storm.setup}; {storm.failed:,} failed; {storm.usage}"
    what = f"set-up at {storm.rate:,}/s {where}, p95"
    return at_most(what, storm.setup.p95, targets.SETUP_P95_MS, "ms", note)


def _figures(storm: Storm) -> dict[str, object]:
    return {
        "streams_beside": storm.beside,
        "rate": storm.rate,
        "connections": storm.connections,
        "failed": storm.failed,
        "setup_ms": storm.setup.as_figures(),
        **storm.usage.as_figures(),
    }
