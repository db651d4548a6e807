"""Several processes behind one port hold more connections than one may open, and stream over a part
of them.

The server's processes and those of the load share all cores, so the pace of the tokens is chosen to
fit them. Nothing here is about speed: what is held, what that takes, and whether every byte came.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from time import monotonic

import numpy as np

from bench.crowd import Order, Seen, crowd
from bench.distributions import Percentiles, percentiles
from bench.evenflow import ACTIVE_CONNECTIONS, Evenflow, evenflow
from bench.metrics_page import scrape
from bench.plan import Plan
from bench.processes import START_SECONDS, Usage
from bench.report import Outcome, Row, none_of
from bench.sessions import SECRET
from bench.verify import Tally
from evenflow.stream_core.base.limits import Limits

PROCESSES = 3
CONNECTIONS_OF_A_PROCESS = 19_000  # what the descriptors allow where a process may open 20,000
RATE = 2_400.0  # new connections a second
TOKEN_MS = 500
SPREAD_SECONDS = 10.0  # the streams begin evenly over this time
SECONDS = 20.0  # a stream
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Held:
    """What was there when all connections were open."""

    by_process: list[int]  # connections
    empty_bytes: list[int]  # memory of each process before
    idle_bytes: list[int]  # memory with its connections
    streaming_bytes: list[int]  # memory after the streams

    @property
    def bytes_each(self) -> float:
        """Memory for one idle connection."""
        return (sum(self.idle_bytes) - sum(self.empty_bytes)) / sum(self.by_process)


async def measure(plan: Plan) -> Outcome:
    plan.say(
        f"processes: {plan.crowd:,} connections at {PROCESSES} processes, {plan.crowd_streaming:,} "
        f"of them streaming a token every {TOKEN_MS} ms"
    )
    async with (
        evenflow(
            core=None, processes=PROCESSES, connections_per_node=CONNECTIONS_OF_A_PROCESS
        ) as server,
        AsyncExitStack() as load,
    ):
        await _all_serve(server)
        empty = _memory(server)
        crowds = [
            load.enter_context(crowd(_order(plan, server, number))) for number in range(PROCESSES)
        ]
        again = sum(await asyncio.gather(*(each.opened() for each in crowds)))
        page = await scrape(server.http_url)
        by_process = [round(value) for value in page.by_process(ACTIVE_CONNECTIONS)]
        idle = _memory(server)
        plan.say(f"processes: held {by_process}")
        usage = server.process.usage()
        seen = await asyncio.gather(*(each.stream() for each in crowds))
        used = server.process.usage() - usage
        held = Held(by_process, empty, idle, _memory(server))
    return _outcome(plan, held, again, seen, used)


async def _all_serve(server: Evenflow) -> None:
    deadline = monotonic() + START_SECONDS
    while len((await scrape(server.http_url)).by_process(ACTIVE_CONNECTIONS)) < PROCESSES:
        if monotonic() > deadline:
            raise RuntimeError(f"{PROCESSES} processes do not serve")
        await asyncio.sleep(0.1)


def _memory(server: Evenflow) -> list[int]:
    return [int(handler.memory_info().rss) for handler in server.process.handlers]


def _order(plan: Plan, server: Evenflow, number: int) -> Order:
    return Order(
        number=number,
        url=server.ws_url,
        secret=SECRET,
        connections=_part(plan.crowd, number),
        rate=RATE / PROCESSES,
        streaming=_part(plan.crowd_streaming, number),
        token_ms=TOKEN_MS,
        seconds=SECONDS,
        spread_seconds=SPREAD_SECONDS,
    )


def _part(whole: int, number: int) -> int:
    return whole // PROCESSES + (number < whole % PROCESSES)


def _outcome(plan: Plan, held: Held, again: int, seen: Sequence[Seen], used: Usage) -> Outcome:
    tally = Tally()
    for each in seen:
        tally += each.tally
    gaps = percentiles(np.abs(np.concatenate([each.gaps_ms for each in seen]) - TOKEN_MS))
    lost = sum(each.lost for each in seen)
    limits = (
        f"{CONNECTIONS_OF_A_PROCESS:,} connections a process, the default is "
        f"{Limits().connections_per_node:,}"
    )
    return Outcome(
        "processes",
        rows=[
            Row(
                f"{plan.crowd:,} connections at {PROCESSES} processes",
                f"{', '.join(f'{count:,}' for count in held.by_process)} ({limits}; "
                f"{again:,} handshakes were tried again)",
            ),
            Row("memory of an idle connection", f"{held.bytes_each / 1_000:.1f} KB"),
            Row("memory of a process: empty, idle, streamed", _megabytes(held)),
            Row(
                f"{plan.crowd_streaming:,} of them, a token every {TOKEN_MS} ms",
                f"{tally.frames / used.seconds:,.0f} frames/s, jitter ms {gaps}, "
                f"CPU of the processes {used.server_percent:.0f} % of a core",
            ),
            none_of("connections lost", lost),
            none_of("gaps", tally.gaps, f"{tally.deltas:,} deltas"),
            none_of("duplicates", tally.duplicates),
            none_of("wrong or unfinished texts", tally.wrong_texts + tally.unfinished),
        ],
        figures=_figures(held, gaps, tally, lost),
        faults=tally.faults + lost,
    )


def _megabytes(held: Held) -> str:
    means = (
        np.mean(sizes) / MEBIBYTE
        for sizes in (held.empty_bytes, held.idle_bytes, held.streaming_bytes)
    )
    return ", ".join(f"{mean:,.0f} MiB" for mean in means)


def _figures(held: Held, gaps: Percentiles, tally: Tally, lost: int) -> dict[str, object]:
    return {
        **asdict(held),
        "bytes_each": round(held.bytes_each),
        "token_ms": TOKEN_MS,
        "jitter_ms": gaps.as_figures(),
        "lost": lost,
        **asdict(tally),
    }
