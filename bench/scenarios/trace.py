"""Requests as a service had them, at default settings: answers are asked for when they were, and
have as many tokens as they had, by WebSocket and by `/v1` at once.

The model takes 10 ms for the first token of each, and 20 ms for every other.
"""

import asyncio
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic

from bench.client import Reader, all_idle, sleep_until
from bench.demo_model import Script
from bench.evenflow import evenflow, settings_row
from bench.plan import Plan
from bench.readers import COMPLETIONS, WEBSOCKET, opened
from bench.report import Outcome, Row, none_of
from bench.timings import timings
from bench.verify import Tally

TRACE = Path(__file__).parents[1] / "data" / "azure-llm-inference-2023.csv"
TOKEN_MS = 20
FINISH_SECONDS = 60.0


@dataclass(frozen=True)
class Asked:
    """One request of the trace: seconds after the first one, and what is asked then."""

    after: float
    script: Script


async def measure(plan: Plan) -> Outcome:
    requests = recorded(plan.trace_seconds)
    plan.say(f"trace: {len(requests)} requests of {plan.trace_seconds:g} s, by both transports")
    transports = (WEBSOCKET, COMPLETIONS)
    async with evenflow(admission={}) as server:
        readers = {name: await opened(name, server, len(requests)) for name in transports}
        begin = monotonic()
        await asyncio.gather(*(_replay(requests, it, begin) for it in readers.values()))
        for some in readers.values():
            await all_idle(some, FINISH_SECONDS)
    tally = Tally()
    for some in readers.values():
        for request, reader in zip(requests, some, strict=True):
            tally += reader.response().judged(request.script.answer, must_finish=True)
    times = {name: timings(some) for name, some in readers.items()}
    return Outcome(
        "trace",
        rows=[
            *(
                Row(f"trace, {name}", f"{it}; {len(requests)} answers")
                for name, it in times.items()
            ),
            none_of("trace: gaps, duplicates, wrong texts", tally.faults),
            settings_row("trace"),
        ],
        figures={name: it.as_figures() for name, it in times.items()},
        faults=tally.faults,
    )


def recorded(seconds: float) -> list[Asked]:
    """The requests of the trace's first seconds, each with a text of its own."""
    with TRACE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    return [
        Asked(after, Script(int(row["GeneratedTokens"]), TOKEN_MS, seed))
        for seed, (row, time) in enumerate(zip(rows, times, strict=True))
        if (after := (time - times[0]).total_seconds()) < seconds
    ]


async def _replay(requests: Sequence[Asked], readers: Sequence[Reader], begin: float) -> None:
    for request, reader in zip(requests, readers, strict=True):
        await sleep_until(begin + request.after)
        reader.ask(request.script.question)
