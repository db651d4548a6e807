"""Requests as a service had them, at default settings: answers are asked for when they were, and
have as many tokens as they had, by WebSocket and by `/v1` at once.

The model takes 10 ms for the first token of each, and 20 ms for every other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from bench.client import Reader, all_idle, sleep_until
from bench.demo_model import Script
from bench.evenflow import Evenflow, evenflow, settings_row
from bench.plan import Plan
from bench.readers import COMPLETIONS, WEBSOCKET, opened_with
from bench.report import Outcome, Row, none_of
from bench.sessions import session_tokens
from bench.timings import timings
from bench.trace import TRACE, read_trace
from bench.verify import Tally

TOKEN_MS = 20
FINISH_SECONDS = 60.0
OPENED_BEFORE_SECONDS = 1.0  # a connection without a request is closed after ten


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
        begin = monotonic() + OPENED_BEFORE_SECONDS
        replayed = await asyncio.gather(
            *(_replay(name, server, requests, begin) for name in transports)
        )
        readers = dict(zip(transports, replayed, strict=True))
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
    return [
        Asked(after, Script(tokens, TOKEN_MS, seed))
        for seed, (after, _, tokens) in enumerate(read_trace(TRACE, seconds))
    ]


async def _replay(
    transport: str, server: Evenflow, requests: Sequence[Asked], begin: float
) -> list[Reader]:
    tokens = session_tokens(len(requests))
    asking = (
        _ask(transport, server, request, token, begin + request.after)
        for request, token in zip(requests, tokens, strict=True)
    )
    return list(await asyncio.gather(*asking))


async def _ask(
    transport: str, server: Evenflow, request: Asked, token: str, moment: float
) -> Reader:
    await sleep_until(moment - OPENED_BEFORE_SECONDS)
    (reader,) = await opened_with(transport, server, [token])
    await sleep_until(moment)
    reader.ask(request.script.question)
    return reader
