"""Evenflow in front of an OpenAI-compatible model server: tokens a second for each core, and the
latency that it adds. Programs read by `/v1`, people by WebSocket.

The model server stamps each token with the moment it was sent; the client subtracts that from the
moment the frame came. The batch window, which Evenflow waits on purpose, is in the latency.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic

from bench import targets, upstream
from bench.client import Reader, all_idle, sleep_until
from bench.distributions import Percentiles, percentiles
from bench.evenflow import ADMISSION, Evenflow, evenflow, settings_row
from bench.machine import LOAD_CORE
from bench.plan import Plan
from bench.processes import Child, Usage, child
from bench.readers import COMPLETIONS, WEBSOCKET, opened
from bench.report import Outcome, Row, at_least, at_most, none_of
from bench.timings import Timings, timings
from bench.verify import Tally
from tests.integration.server_process import free_port

TOKEN_MS = 30
SETTLE_SECONDS = 1.5
SPREAD_SECONDS = 1.0
FINISH_SECONDS = 10.0
ENDLESS_SECONDS = 100.0  # longer than the saturation run; the streams are cut when it ends
KEEPS_UP_SHARE = 0.97  # of the tokens that are made


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
    def tokens_per_second(self) -> float:
        return self.tokens / self.usage.seconds

    @property
    def keeps_up(self) -> bool:
        """Whether tokens come as fast as they are made."""
        made = self.streams * 1_000 / TOKEN_MS
        return self.tokens_per_second >= made * KEEPS_UP_SHARE

    def __str__(self) -> str:
        return f"{self.tokens_per_second:,.0f} tokens/s, added ms {self.added}, {self.cpu}"

    @property
    def cpu(self) -> str:
        return f"{self.usage}, model server {self.model_percent:.0f} %"


@dataclass(frozen=True)
class Relayed:
    """What was measured by one transport."""

    steady: Step
    timings: Timings  # of the steady streams
    steps: list[Step]
    tally: Tally

    @property
    def most(self) -> Step:
        """The one with the most tokens a second."""
        return max(self.steps, key=lambda step: step.tokens_per_second)


async def measure(plan: Plan) -> Outcome:
    programs = await _relayed(plan, COMPLETIONS)
    people = await _relayed(plan, WEBSOCKET)
    return _outcome(programs, people)


async def _relayed(plan: Plan, transport: str) -> Relayed:
    async with _relay() as relay:
        plan.say(f"relay to {transport}: {plan.relay_streams} streams, a token every {TOKEN_MS} ms")
        readers = await opened(transport, relay.server, plan.relay_streams)
        steady, tally = await _steady(plan, relay, readers)
        plan.say(f"relay to {transport}: {plan.relay_streams} streams: {steady}")
    async with _relay() as relay:
        steps, cut = await _saturation(plan, relay, transport)
    tally += cut
    return Relayed(steady, timings(readers), steps, tally)


@asynccontextmanager
async def _relay() -> AsyncIterator[Relay]:
    port = free_port()
    async with (
        child(["bench.upstream", str(port)], ports=(port,), core=LOAD_CORE) as model,
        evenflow(
            model="openai",
            model_url=f"http://127.0.0.1:{port}/v1",
            model_name="demo",
        ) as server,
    ):
        yield Relay(server, model)


async def _steady(plan: Plan, relay: Relay, readers: Sequence[Reader]) -> tuple[Step, Tally]:
    """Streams that run to their end, so that every token is accounted for."""
    seconds = SPREAD_SECONDS + SETTLE_SECONDS + plan.relay_seconds
    await _begin(readers, seconds)
    step = await _step(plan, relay, readers)
    await all_idle(readers, FINISH_SECONDS)
    return step, _judged(readers, round(1_000 * seconds / TOKEN_MS))


async def _saturation(plan: Plan, relay: Relay, transport: str) -> tuple[list[Step], Tally]:
    """More streams, step by step, until tokens come more slowly than they are made."""
    readers: list[Reader] = []
    steps: list[Step] = []
    for count in plan.relay_steps:
        arriving = await opened(transport, relay.server, count - len(readers))
        await _begin(arriving, ENDLESS_SECONDS)
        readers += arriving
        steps.append(await _step(plan, relay, readers))
        plan.say(f"relay to {transport}: {count} streams: {steps[-1]}")
        if not steps[-1].keeps_up:
            break
    return steps, _judged(readers, None)


async def _begin(readers: Sequence[Reader], seconds: float) -> None:
    question = upstream.question(round(1_000 * seconds / TOKEN_MS), TOKEN_MS)
    begin = monotonic()
    for number, reader in enumerate(readers):
        await sleep_until(begin + SPREAD_SECONDS * number / len(readers))
        reader.ask(question)


async def _step(plan: Plan, relay: Relay, readers: Sequence[Reader]) -> Step:
    await asyncio.sleep(SETTLE_SECONDS)
    usage, model, begin = relay.server.process.usage(), relay.model.usage(), monotonic()
    await asyncio.sleep(plan.relay_seconds)
    used, modelled, end = (
        relay.server.process.usage() - usage,
        relay.model.usage() - model,
        monotonic(),
    )
    added = [delay for reader in readers for delay in _delays(reader, begin, end)]
    used = replace(
        used, load_core=used.load_core - modelled.server
    )  # the model server is not one of the "others"
    return Step(len(readers), len(added), percentiles(added), used, modelled.server_percent)


def _delays(reader: Reader, begin: float, end: float) -> Iterator[float]:
    """For each token that came between two moments, the ms since the model server sent it."""
    for at, text in reader.deltas():
        if begin <= at < end:
            arrived = int(at * 1_000_000)
            for _, sent in upstream.sent_tokens(text):
                yield (arrived - sent) % upstream.CLOCK_WRAP / 1_000


def _judged(readers: Sequence[Reader], tokens: int | None) -> Tally:
    """`tokens`: how many each answer must have had; None when the streams were cut."""
    tally = Tally()
    for reader in readers:
        response = reader.response()
        text = "".join(response.parts)
        numbers = [number for number, _ in upstream.sent_tokens(text)]
        in_order = numbers == list(range(len(numbers) if tokens is None else tokens))
        tally += response.judged(text if in_order else "", must_finish=tokens is not None)
    return tally


def _outcome(programs: Relayed, people: Relayed) -> Outcome:
    tally = Tally()
    tally += programs.tally
    tally += people.tally
    steady = f"{programs.steady.streams} streams of {TOKEN_MS} ms a token"
    added = f"ms {programs.steady.added}; {programs.steady.cpu}"
    return Outcome(
        "relay",
        rows=[
            *(
                at_least(
                    f"relay, /v1 to {transport}, tokens/s on one core",
                    relayed.most.tokens_per_second,
                    targets.RELAY_TOKENS_PER_CORE,
                    "tokens/s",
                    f"{relayed.most.streams:,} streams: {relayed.most}",
                )
                for transport, relayed in ((COMPLETIONS, programs), (WEBSOCKET, people))
            ),
            at_most(
                f"relay, /v1 to /v1, added p50, {steady}",
                programs.steady.added.p50,
                targets.RELAY_P50_MS,
                "ms",
                added,
            ),
            at_most(
                "the same, p95", programs.steady.added.p95, targets.RELAY_P95_MS, "ms", added
            ),
            Row(f"relay, /v1 to /v1, {steady}", str(programs.timings)),
            Row(f"relay, /v1 to WebSocket, added, {steady}", f"ms {people.steady.added}"),
            Row(f"relay, /v1 to WebSocket, {steady}", str(people.timings)),
            none_of(
                "relay: gaps, duplicates, wrong texts", tally.faults, f"{tally.deltas:,} deltas"
            ),
            settings_row("relay", **ADMISSION),
        ],
        figures={"v1": _all_figures(programs), "websocket": _all_figures(people)},
        faults=tally.faults,
    )  # fmt: skip


def _all_figures(relayed: Relayed) -> dict[str, object]:
    return {
        "steady": _figures(relayed.steady) | relayed.timings.as_figures(),
        "saturation": [_figures(step) for step in relayed.steps],
    }


def _figures(step: Step) -> dict[str, object]:
    return {
        "streams": step.streams,
        "tokens_per_second": round(step.tokens_per_second),
        "tokens_per_core_second": round(step.tokens / step.usage.server),
        "added_ms": step.added.as_figures(),
        "model_server_cpu_percent": round(step.model_percent, 1),
        **step.usage.as_figures(),
    }
