"""Evenflow beside the bare picows sender: memory of an idle connection, and frames a second when
the core is full.

The two take turns in fresh processes, and the medians are compared, because the machine is shared
and noisy. Frames a second are given for a full core: frames that arrived ÷ CPU seconds of the
server. Both raw figures stand beside it, so that a client core that fills first is seen. One more
round is at the default window, which lengthens when the core is full.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from picows import WSMsgType

from bench import targets
from bench.awake import awake
from bench.client import Connection, all_ready, open_connections, until
from bench.evenflow import ADMISSION, evenflow, settings_row
from bench.plan import Plan
from bench.processes import Child, child
from bench.report import Outcome, Row, at_least, at_most, none_of
from bench.sessions import session_tokens
from bench.streams import Streams
from bench.throughput import Throughput
from bench.verify import Tally
from tests.integration.server_process import free_port

SETTLE_SECONDS = 1.0  # before memory is read
WARM_UP_SECONDS = 2.0  # between the first frame and the first one that counts
# A second, over all streams: what the bare sender does here, so Evenflow's core is full.
DEMANDED_FRAMES = 130_000
SLOT_MS = (
    10  # of the delivery clock: a window of whole slots, so that each token is a frame of its own
)
STREAM_SECONDS = 25.0  # at a token per window: no response ends while frames are counted
UNJOINED_MS = 60  # longer than the default window, so that each token is a frame there too
BEGIN_SECONDS = 10.0  # for every stream to have begun
SPREAD_SECONDS = 1.0  # the streams begin evenly over this time


@dataclass(frozen=True)
class Round:
    """What one turn of one server gave."""

    idle_kb: float  # of the server's VmRSS for each connection
    throughput: Throughput

    def __str__(self) -> str:
        return f"{self.throughput}, idle {self.idle_kb:.1f} KB"


async def measure(plan: Plan) -> Outcome:
    tally = Tally()
    bare: list[Round] = []
    ours: list[Round] = []
    for number in range(1, plan.rounds + 1):
        plan.say(
            f"saturation {number}/{plan.rounds}: {plan.connections:,} connections of the bare "
            "sender"
        )
        bare.append(await bare_round(plan))
        plan.say(f"saturation {number}/{plan.rounds}: bare {bare[-1]}; now Evenflow")
        ours.append(
            await evenflow_round(plan, tally, token_interval_ms(plan), **held_interval(plan))
        )
        plan.say(f"saturation {number}/{plan.rounds}: Evenflow {ours[-1]}")
    default = await evenflow_round(plan, tally, max(UNJOINED_MS, token_interval_ms(plan)))
    plan.say(f"saturation: Evenflow at the default window: {default}")
    return _outcome(plan, bare, ours, default, tally)


async def bare_round(plan: Plan) -> Round:
    port = free_port()
    async with child(["bench.bare_sender", str(port)], ports=(port,)) as server:
        before = server.memory_bytes()
        connections = await open_connections(f"ws://127.0.0.1:{port}/ws", [""] * plan.connections)
        idle_kb = await _idle_kb(server, before, connections)
        connections[0].transport.send(WSMsgType.TEXT, b"0")
        return await _saturated(plan, server, connections, idle_kb)


def token_interval_ms(plan: Plan) -> int:
    return max(1, 1_000 * plan.connections // DEMANDED_FRAMES // SLOT_MS) * SLOT_MS


def held_interval(plan: Plan) -> dict[str, int]:
    """The settings that keep the interval at one token, however full the core is."""
    return {
        "batch_window_ms": token_interval_ms(plan),
        "batch_window_max_ms": token_interval_ms(plan),
    }


async def evenflow_round(
    plan: Plan,
    tally: Tally,
    token_ms: int,
    stream_seconds: float = STREAM_SECONDS,
    **settings: int,
) -> Round:
    async with evenflow(admission=ADMISSION | settings) as server:
        before = server.process.memory_bytes()
        connections = await open_connections(server.ws_url, session_tokens(plan.connections))
        await all_ready(connections)
        idle_kb = await _idle_kb(server.process, before, connections)
        streams = Streams(connections, seconds=stream_seconds, token_ms=token_ms)
        await streams.begin(spread_seconds=SPREAD_SECONDS)
        await until(lambda: all(it.begun for it in connections), BEGIN_SECONDS)
        result = await _saturated(plan, server.process, connections, idle_kb)
    tally += streams.judge(must_finish=False)
    return result


async def _idle_kb(server: Child, before: int, connections: Sequence[Connection]) -> float:
    await asyncio.sleep(SETTLE_SECONDS)
    return (server.memory_bytes() - before) / len(connections) / 1024


async def _saturated(
    plan: Plan, server: Child, connections: Sequence[Connection], idle_kb: float
) -> Round:
    async with awake():
        await asyncio.sleep(WARM_UP_SECONDS)
        frames, usage = _received(connections), server.usage()
        await asyncio.sleep(plan.saturation_seconds)
        used = server.usage() - usage
        result = Round(idle_kb, Throughput(_received(connections) - frames, used))
    for connection in connections:
        connection.close()
    return result


def _received(connections: Sequence[Connection]) -> int:
    return sum(len(connection.frames) for connection in connections)


def _outcome(
    plan: Plan, bare: Sequence[Round], ours: Sequence[Round], default: Round, tally: Tally
) -> Outcome:
    count = f"{plan.connections:,} connections"
    limit = median(turn.throughput.per_core for turn in bare)
    rate = median(turn.throughput.per_core for turn in ours)
    limit_kb = median(turn.idle_kb for turn in bare)
    idle_kb = median(turn.idle_kb for turn in ours)
    return Outcome(
        "saturation",
        rows=[
            Row(
                f"bare picows, {count}",
                f"{limit:,.0f} frames/s a core, {limit_kb:.1f} KB idle ({_sample(bare)})",
            ),
            at_most(
                "idle memory per connection", idle_kb, targets.IDLE_KB, "KB", f"{count}, VmRSS"
            ),
            at_least(
                "frames/s a core, of the bare limit",
                100 * rate / limit,
                targets.SHARE_OF_BARE_PERCENT,
                "%",
                f"{rate:,.0f} frames/s a core; {_sample(ours)}",
            ),
            Row(
                "the same at the default window",
                f"{default.throughput.per_core:,.0f} frames/s a core, "
                f"{100 * default.throughput.per_core / limit:.0f} % ({default.throughput.usage})",
            ),
            none_of(
                "gaps, duplicates, wrong texts at saturation",
                tally.faults,
                f"{tally.deltas:,} deltas",
            ),
            settings_row("saturation", **ADMISSION, **held_interval(plan)),
        ],
        figures={
            "connections": plan.connections,
            "bare": [_figures(turn) for turn in bare],
            "evenflow": [_figures(turn) for turn in ours],
            "default_window": _figures(default),
            "joined_deltas": tally.joined,
        },
        faults=tally.faults,
    )  # fmt: skip


def _sample(rounds: Sequence[Round]) -> str:
    """The CPU of both sides in the middle round: which of them was full."""
    middle = sorted(rounds, key=lambda turn: turn.throughput.per_core)[len(rounds) // 2]
    return str(middle.throughput.usage)


def _figures(turn: Round) -> dict[str, float]:
    return {"idle_kb": round(turn.idle_kb, 2), **turn.throughput.as_figures()}
