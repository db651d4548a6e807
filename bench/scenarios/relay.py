"""Evenflow in front of an OpenAI-compatible model server: tokens a second for each core, and the
latency that it adds.

The model server stamps each token with the moment it was sent; the client subtracts that from the
moment the frame came. The batch window, which Evenflow waits on purpose, is in the latency; the
table shows it with and without.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic

import orjson

from bench import targets, upstream
from bench.client import Connection, all_idle, all_ready, open_connections, sleep_until
from bench.distributions import Percentiles, percentiles
from bench.evenflow import Evenflow, evenflow
from bench.machine import LOAD_CORE
from bench.plan import Plan
from bench.processes import Child, Usage, child
from bench.report import Outcome, Row, at_least, none_of
from bench.sessions import session_tokens
from bench.verify import DELTA_START, Tally, responses
from tests.integration.server_process import free_port

TOKEN_MS = 30
WINDOW_MS = 50  # the default of EVENFLOW_BATCH_WINDOW_MS
SETTLE_SECONDS = 1.5
SPREAD_SECONDS = 1.0
FINISH_SECONDS = 10.0
ENDLESS_SECONDS = 100.0  # longer than the saturation run; the streams are cut when it ends
FULL_PERCENT = 97.0  # of the server's core: more streams would tell nothing


@dataclass(frozen=True)
class Relay:
    """Evenflow and the model server behind it."""

    server: Evenflow
    model: Child


@dataclass(frozen=True)
class Step:
    """One number of streams, measured over a stretch in which all were running."""

    streams: int
    tokens: int
    added: Percentiles  # ms from the model server's send to the client's frame
    usage: Usage
    model_percent: float  # CPU of the model server, which shares the load core with the client

    @property
    def tokens_per_core(self) -> float:
        """Tokens relayed for each CPU second of the Evenflow process."""
        return self.tokens / self.usage.server

    def __str__(self) -> str:
        return (
            f"{self.tokens / self.usage.seconds:,.0f} tokens/s, added ms {self.added}, {self.cpu}"
        )

    @property
    def cpu(self) -> str:
        return f"{self.usage}, model server {self.model_percent:.0f} %"


async def measure(plan: Plan) -> Outcome:
    async with _relay() as relay:
        plan.say(f"relay: {plan.relay_streams} streams, a token every {TOKEN_MS} ms")
        steady, tally = await _steady(plan, relay)
        plan.say(f"relay: {plan.relay_streams} streams: {steady}")
    async with _relay() as relay:
        steps, cut = await _saturation(plan, relay)
    tally += cut
    return _outcome(steady, steps, tally)


@asynccontextmanager
async def _relay() -> AsyncIterator[Relay]:
    port = free_port()
    async with (
        child(["bench.upstream", str(port)], ports=(port,), core=LOAD_CORE) as model,
        evenflow(
            model="openai",
            model_url=f"http://127.0.0.1:{port}/v1",
            batch_window_ms=WINDOW_MS,
            model_deadline_seconds=2 * ENDLESS_SECONDS,
        ) as server,
    ):
        yield Relay(server, model)


async def _steady(plan: Plan, relay: Relay) -> tuple[Step, Tally]:
    """Streams that run to their end, so that every token is accounted for."""
    connections = await _connected(relay, plan.relay_streams)
    seconds = SPREAD_SECONDS + SETTLE_SECONDS + plan.relay_seconds
    await _begin(connections, seconds)
    step = await _step(plan, relay, connections)
    await all_idle(connections, FINISH_SECONDS)
    return step, _judged(connections, round(1_000 * seconds / TOKEN_MS))


async def _saturation(plan: Plan, relay: Relay) -> tuple[list[Step], Tally]:
    """More streams, step by step, until the server's core is full."""
    connections: list[Connection] = []
    steps: list[Step] = []
    for count in plan.relay_steps:
        arriving = await _connected(relay, count - len(connections))
        await _begin(arriving, ENDLESS_SECONDS)
        connections += arriving
        steps.append(await _step(plan, relay, connections))
        plan.say(f"relay: {count} streams: {steps[-1]}")
        if steps[-1].usage.server_percent + steps[-1].usage.server_others_percent >= FULL_PERCENT:
            break
    return steps, _judged(connections, None)


async def _connected(relay: Relay, count: int) -> list[Connection]:
    connections = await open_connections(relay.server.ws_url, session_tokens(count))
    await all_ready(connections)
    return connections


async def _begin(connections: Sequence[Connection], seconds: float) -> None:
    question = upstream.question(round(1_000 * seconds / TOKEN_MS), TOKEN_MS)
    begin = monotonic()
    for number, connection in enumerate(connections):
        await sleep_until(begin + SPREAD_SECONDS * number / len(connections))
        connection.ask(question)


async def _step(plan: Plan, relay: Relay, connections: Sequence[Connection]) -> Step:
    await asyncio.sleep(SETTLE_SECONDS)
    usage, model, opened = relay.server.process.usage(), relay.model.usage(), monotonic()
    await asyncio.sleep(plan.relay_seconds)
    used, modelled, closed = (
        relay.server.process.usage() - usage,
        relay.model.usage() - model,
        monotonic(),
    )
    added = [delay for connection in connections for delay in _delays(connection, opened, closed)]
    used = replace(
        used, load_core=used.load_core - modelled.server
    )  # the model server is not one of the "others"
    return Step(len(connections), len(added), percentiles(added), used, modelled.server_percent)


def _delays(connection: Connection, opened: float, closed: float) -> Iterator[float]:
    """For each token that came between two moments, the ms since the model server sent it."""
    for at, raw in zip(connection.arrivals, connection.frames, strict=True):
        if opened <= at < closed and raw.startswith(DELTA_START):
            arrived = int(at * 1_000_000)
            for _, sent in upstream.sent_tokens(orjson.loads(raw)["delta"]):
                yield (arrived - sent) % upstream.CLOCK_WRAP / 1_000


def _judged(connections: Sequence[Connection], tokens: int | None) -> Tally:
    """`tokens`: how many each answer must have had; None when the streams were cut."""
    tally = Tally()
    for connection in connections:
        response = responses(connection.frames)[connection.message_id]
        text = "".join(response.parts)
        numbers = [number for number, _ in upstream.sent_tokens(text)]
        in_order = numbers == list(range(len(numbers) if tokens is None else tokens))
        tally += response.judged(text if in_order else "", must_finish=tokens is not None)
    return tally


def _outcome(steady: Step, steps: Sequence[Step], tally: Tally) -> Outcome:
    full = max(steps, key=lambda step: step.usage.server_percent)
    most = max(step.tokens / step.usage.seconds for step in steps)
    return Outcome(
        "relay",
        rows=[
            at_least(
                "relay, tokens/s a core",
                full.tokens_per_core,
                targets.RELAY_TOKENS_PER_CORE,
                "tokens/s",
                f"{full.streams:,} streams; sustained {most:,.0f}/s; {full.cpu}",
            ),
            Row(
                f"relay, added latency, {steady.streams} streams of {TOKEN_MS} ms a token",
                f"ms {steady.added}; beyond the {WINDOW_MS} ms window: {steady.added - WINDOW_MS}",
            ),
            none_of(
                "relay: gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"
            ),
        ],
        figures={
            "window_ms": WINDOW_MS,
            "steady": _figures(steady),
            "saturation": [_figures(step) for step in steps],
        },
        faults=tally.faults,
    )  # fmt: skip


def _figures(step: Step) -> dict[str, object]:
    return {
        "streams": step.streams,
        "tokens_per_second": round(step.tokens / step.usage.seconds),
        "tokens_per_core_second": round(step.tokens_per_core),
        "added_ms": step.added.as_figures(),
        "model_server_cpu_percent": round(step.model_percent, 1),
        **step.usage.as_figures(),
    }
