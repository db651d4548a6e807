"""Very many readers of one answer: 20,000 at a 200 ms interval, and at the default window as many
as the server's core serves, by WebSocket and by server-sent events.

The answer's owner asks; the readers come with a ticket while it is generated, and each is judged on
every index and byte. Jitter is as in `streaming`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import orjson
from picows import WSMsgType

from bench import targets
from bench.awake import awake
from bench.client import (
    SETTLED_RATE,
    Connection,
    Reader,
    all_idle,
    all_ready,
    open_connections,
    until,
)
from bench.demo_model import Script
from bench.distributions import Percentiles, percentiles
from bench.evenflow import ADMISSION, Evenflow, evenflow, settings_row
from bench.event_reader import AudienceReader, open_readers
from bench.plan import Plan
from bench.processes import Usage
from bench.readers import SSE, WEBSOCKET
from bench.report import Outcome, Row, at_most, none_of
from bench.sessions import session_tokens, tickets
from bench.verify import Response, Tally, responses

SLOW_WINDOW_MS = 200
DEFAULT_WINDOW_MS = 50
SETTLE_SECONDS = 3.0
FINISH_SECONDS = 60.0
FULL_PERCENT = 95.0


@dataclass(frozen=True)
class Step:
    """One audience, measured."""

    transport: str
    readers: int
    window_ms: int
    jitter: Percentiles  # ms, at the client
    interval_ms: float  # the median gap
    frames_per_second: float
    usage: Usage
    tally: Tally

    def __str__(self) -> str:
        return (
            f"{self.frames_per_second:,.0f} frames/s, interval {self.interval_ms:.0f} ms, jitter "
            f"ms {self.jitter}, {self.usage}"
        )


async def measure(plan: Plan) -> Outcome:
    many = await _step(plan, WEBSOCKET, plan.audience, SLOW_WINDOW_MS)
    default: list[Step] = []
    for transport in (WEBSOCKET, SSE):
        for readers in plan.audience_steps:
            default.append(await _step(plan, transport, readers, DEFAULT_WINDOW_MS))
            if default[-1].usage.server_percent >= FULL_PERCENT:
                break
    return _outcome(many, default)


async def _step(plan: Plan, transport: str, readers: int, window_ms: int) -> Step:
    who = f"{readers:,} readers of one answer by {transport}"
    plan.say(f"audience: {who}, batch_window_ms={window_ms}")
    joining = readers / SETTLED_RATE
    seconds = joining + 2 * SETTLE_SECONDS + plan.jitter_seconds
    # A token in the middle of each interval: one is a delta.
    script = Script(round(1_000 * seconds / window_ms), window_ms, seed=1)
    # They come from one machine, with one ticket, and so are one caller.
    settings: dict[str, Any] = {"calls_per_second": 1_000_000, "streams_per_session": readers}
    if window_ms != DEFAULT_WINDOW_MS:
        settings |= _settings(window_ms, readers)
    async with evenflow(**settings) as server:
        token = session_tokens(1)[0]
        (owner,) = await open_connections(server.ws_url, [token])
        await all_ready([owner])
        owner.ask(script.question)
        await until(lambda: len(owner.frames) > 1, FINISH_SECONDS)
        response_id = orjson.loads(owner.frames[1])["response_id"]
        crowd = await _crowd(transport, server, tickets(token, response_id, readers))
        async with awake():
            for reader in crowd:
                _read(reader, response_id)
            await asyncio.sleep(SETTLE_SECONDS)
            usage, opened = server.process.usage(), monotonic()
            await asyncio.sleep(plan.jitter_seconds)
            used, closed = server.process.usage() - usage, monotonic()
        await all_idle(crowd, FINISH_SECONDS)
    tally = Tally()
    for reader in crowd:
        tally += _response(reader, owner).judged(script.answer, must_finish=True)
    step = _measured(transport, crowd, tally, used, (opened, closed), window_ms)
    plan.say(f"audience: {who}: {step}")
    return step


def _settings(window_ms: int, readers: int) -> dict[str, int]:
    # The owner reads, too.
    return {"batch_window_ms": window_ms, "readers_per_response": readers + 1}


async def _crowd(transport: str, server: Evenflow, given: Sequence[str]) -> Sequence[Reader]:
    """A connection for each ticket."""
    if transport == SSE:
        return await open_readers(AudienceReader, server.http_url, given)
    connections = await open_connections(server.ws_url, given)
    await all_ready(connections)
    return connections


def _read(reader: Reader, response_id: str) -> None:
    if isinstance(reader, Connection):
        message = {"type": "response.resume", "response_id": response_id, "after": -1}
        reader.transport.send(WSMsgType.TEXT, orjson.dumps(message))
    else:
        reader.ask(response_id)


def _response(reader: Reader, owner: Connection) -> Response:
    if isinstance(reader, Connection):
        return responses(reader.frames)[owner.message_id]
    return reader.response()


def _measured(
    transport: str,
    crowd: Sequence[Reader],
    tally: Tally,
    used: Usage,
    window: tuple[float, float],
    window_ms: int,
) -> Step:
    arrivals = [reader.delta_arrivals(*window) for reader in crowd]
    gaps = 1_000 * np.concatenate([np.diff(times) for times in arrivals])
    interval = float(np.median(gaps))
    return Step(
        transport=transport,
        readers=len(crowd),
        window_ms=window_ms,
        jitter=percentiles(np.abs(gaps - max(interval, window_ms))),
        interval_ms=interval,
        frames_per_second=sum(map(len, arrivals)) / used.seconds,
        usage=used,
        tally=tally,
    )


def _outcome(many: Step, default: Sequence[Step]) -> Outcome:
    tally = Tally()
    for step in (many, *default):
        tally += step.tally
    count = f"{many.readers:,} readers of one answer, batch_window_ms={many.window_ms}"
    return Outcome(
        "audience",
        rows=[
            Row(count, f"{many.frames_per_second:,.0f} frames/s, {many.usage}"),
            at_most(
                "client jitter p95",
                many.jitter.p95,
                targets.AUDIENCE_JITTER_P95_MS,
                "ms",
                f"p99 {many.jitter.p99:.1f}; interval {many.interval_ms:.0f} ms",
            ),
            *(
                Row(
                    f"{step.readers:,} readers of one answer by {step.transport}, default window",
                    str(step),
                )
                for step in default
            ),
            none_of("gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"),
            settings_row("audience", **ADMISSION, **_settings(many.window_ms, many.readers)),
        ],
        figures={"steps": [_figures(step) for step in (many, *default)]},
        faults=tally.faults,
    )


def _figures(step: Step) -> dict[str, object]:
    return {
        "transport": step.transport,
        "readers": step.readers,
        "window_ms": step.window_ms,
        "interval_ms": round(step.interval_ms, 1),
        "frames_per_second": round(step.frames_per_second),
        "jitter_ms": step.jitter.as_figures(),
        **step.usage.as_figures(),
    }
