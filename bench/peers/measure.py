"""What is measured of one system: a load that grows, a real trace, connections that are cut, and
readers who leave.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import psutil
from picows import WSError

from bench.client import sleep_until, until
from bench.distributions import percentiles
from bench.event_streams import ProtocolError
from bench.machine import LOAD_CORE
from bench.peers.judge import Tally, Text, delays, jitters, judged, tokens
from bench.peers.load import Load, Step
from bench.peers.readers import Reader
from bench.peers.systems import System
from bench.processes import child
from bench.trace import TRACE, read_trace
from tests.integration.server_process import free_port

TOKEN_MS = 30
REPORTED = (100, 1_000)  # streams: these steps are measured even if the core is full before
BEGUN_PER_SECOND = 300
ALL_READING_SECONDS = 5.0  # after which those who got nothing yet are counted
SETTLE_SECONDS = 1.0
ENDLESS_TOKENS = 4_000  # two minutes: longer than the steps; what is left is cut
FULL_PERCENT = 95.0
HOPELESS_MS = 1_000.0  # p95 from which on more streams would tell nothing
CUT_TOKEN_MS, CUT_TOKENS = 300, 24
AWAY_SECONDS = 0.5
LEAVING = 20
LEAVING_AFTER_SECONDS = 1.5
FIRST_ANSWER_SECONDS = 60.0
FINISH_SECONDS = 20.0
LONGEST_ANSWER = 200  # tokens; the longest of the trace would take minutes


@dataclass(frozen=True)
class Plan:
    """Counts are streams, durations are seconds."""

    steps: tuple[int, ...]
    step_seconds: float
    cuts: int
    trace_seconds: float
    trace_speed: float  # times as fast as it was
    watched_seconds: float  # for which the model is watched after its reader has left
    waits_for_grace: bool  # beyond that, where the system says that it waits for its reader


FULL = Plan(
    steps=(
        100,
        300,
        1_000,
        1_500,
    ),  # 50,000 tokens a second is what the load's core makes and reads
    step_seconds=2.5,
    cuts=1_000,
    trace_seconds=8.0,
    trace_speed=4.0,
    watched_seconds=5.0,
    waits_for_grace=True,
)
QUICK = Plan(
    steps=REPORTED,
    step_seconds=1.5,
    cuts=100,
    trace_seconds=2.0,
    trace_speed=4.0,
    watched_seconds=2.0,
    waits_for_grace=False,
)


async def measure(system: System, plan: Plan, figures: dict[str, Any]) -> None:
    """Add a system's figures by phase; a phase that could not be measured says why."""
    async with started(system) as load:
        steps = await growing(load, plan)
    figures["load"] = growth(load, steps)  # what goes on without readers has ended now
    async with started(system) as load:
        figures["trace"] = await _phase(_trace(load, plan))
        if system.resumes:
            figures["cut"] = await _phase(_cut(load, plan))
        figures["leaving"] = await _phase(_leaving(load, plan, system))


@asynccontextmanager
async def started(system: System) -> AsyncIterator[Load]:
    port = free_port()
    async with (
        child(["bench.upstream", str(port)], ports=(port,), core=LOAD_CORE) as model,
        system.start(port) as running,
    ):
        load = Load(port, model, running)
        await _warm_up(load)
        yield load


async def _warm_up(load: Load) -> None:
    """One short answer, since some load what they need with the first.

    Raises:
        RuntimeError: it did not come whole.
    """
    reader = load.reader(3, TOKEN_MS)
    await reader.begin()
    await _done([reader], FIRST_ANSWER_SECONDS)
    if (tally := load.judged([reader])).faults:
        raise RuntimeError(f"it does not answer: {tally}, {load.failures}")
    reader.cut()
    load.readers.clear()


async def _phase(measuring: Coroutine[None, None, dict[str, Any]]) -> dict[str, Any]:
    try:
        return await measuring
    except (OSError, TimeoutError, ValueError, WSError, psutil.Error) as error:
        return {"failure": repr(error)[:300]}


# A load that grows ----------------------------------------------------------------------------


async def growing(load: Load, plan: Plan) -> list[Step]:
    """More streams, step by step, until the server's core or the load's is full."""
    steps: list[Step] = []
    for count in plan.steps:
        arriving = [load.reader(ENDLESS_TOKENS, TOKEN_MS) for _ in range(count - len(load.readers))]
        await load.begin(arriving, _at(BEGUN_PER_SECOND, len(arriving)))
        steps.append(await _step(load, plan))
        if max(_last_delays(load.readers), default=HOPELESS_MS) >= HOPELESS_MS:
            break
        busiest = max(steps[-1].percent(*load.running.processes), steps[-1].percent("load core"))
        if busiest >= FULL_PERCENT and count >= REPORTED[-1]:
            break
    for reader in load.readers:
        reader.cut()
    return steps


def growth(load: Load, steps: Sequence[Step]) -> dict[str, Any]:
    tally = Tally()
    for reader in load.readers:
        texts = load.texts(reader)
        tally += judged(texts, reader.question.first, ENDLESS_TOKENS, must_finish=False)
        _add(texts, steps)
    servers = list(load.running.processes)
    return {"steps": [step.figures(servers) for step in steps], **_content(load, tally)}


def _at(rate: float, count: int) -> list[float]:
    begin = monotonic() + 0.05
    return [begin + number / rate for number in range(count)]


async def _step(load: Load, plan: Plan) -> Step:
    await until(lambda: all(reader.reading for reader in load.readers), ALL_READING_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS)
    before = load.cpu()
    await asyncio.sleep(plan.step_seconds)
    after = load.cpu()
    used = {name: after[name] - before[name] for name in after}
    return Step(len(load.readers), before["clock"], after["clock"], used, load.memory_bytes())


def _last_delays(readers: Sequence[Reader]) -> list[float]:
    """Of some readers, how long their last token was under way, in ms."""
    some = readers[:: max(1, len(readers) // 20)]
    return [token.added_ms for reader in some for token in [*tokens(_survivor(reader))][-1:]]


def _add(texts: Sequence[Text], steps: Sequence[Step]) -> None:
    """Add what a reader has seen to the steps in which it saw it."""
    answer = list(tokens(texts))
    for step in steps:
        added = delays(answer, step.opened, step.closed)
        step.reading += bool(added)
        step.added += added
        step.jitter += jitters(answer, step.opened, step.closed)


# A real trace ---------------------------------------------------------------------------------


async def _trace(load: Load, plan: Plan) -> dict[str, Any]:
    """Requests that arrive as they did, and are as long as they were."""
    rows = read_trace(TRACE, plan.trace_seconds * plan.trace_speed, LONGEST_ANSWER)
    readers = [load.reader(length, TOKEN_MS, prompt) for _, prompt, length in rows]
    begin = monotonic() + 0.1
    await load.begin(readers, [begin + at / plan.trace_speed for at, _, _ in rows])
    await _done(readers, LONGEST_ANSWER * TOKEN_MS / 1_000 + FINISH_SECONDS)
    tally = load.judged(readers)
    first, added = [], []
    for reader in readers:
        answer = list(tokens(_survivor(reader)))
        added += [token.added_ms for token in answer]
        first += [1_000 * (token.arrived - reader.asked) for token in answer[:1]]
    return {
        "requests": len(rows),
        "speed": plan.trace_speed,
        "first_token_ms": percentiles(first).as_figures(),
        "added_ms": percentiles(added).as_figures(),
        **_content(load, tally),
    }


# Cut connections, and readers who leave -------------------------------------------------------


async def _cut(load: Load, plan: Plan) -> dict[str, Any]:
    """Each connection is cut once in the middle of its answer, and its reader comes back."""
    readers = [load.reader(CUT_TOKENS, CUT_TOKEN_MS) for _ in range(plan.cuts)]
    seconds = CUT_TOKENS * CUT_TOKEN_MS / 1_000
    chance = random.Random(12)

    async def read(reader: Reader, moment: float) -> None:
        await sleep_until(moment)
        await load.survived(reader.begin())
        await asyncio.sleep(seconds * chance.uniform(0.2, 0.6))
        reader.cut()
        await asyncio.sleep(AWAY_SECONDS)
        await load.survived(reader.come_back())

    moments = _at(BEGUN_PER_SECOND, len(readers))
    await asyncio.gather(*map(read, readers, moments))
    await _done(readers, seconds + FINISH_SECONDS)
    return {"connections": len(readers), **_content(load, load.judged(readers))}


async def _leaving(load: Load, plan: Plan, system: System) -> dict[str, Any]:
    """Readers close their connections in the middle of the answer, and the model is asked when
    its own are closed.
    """
    watched = plan.watched_seconds + (system.grace_seconds if plan.waits_for_grace else 0.0)
    length = round(1_000 * (LEAVING_AFTER_SECONDS + watched + FINISH_SECONDS) / TOKEN_MS)
    make = load.running.leaver
    readers = [load.reader(length, TOKEN_MS, make=make) for _ in range(LEAVING)]
    await load.begin(readers, _at(BEGUN_PER_SECOND, len(readers)))
    await asyncio.sleep(LEAVING_AFTER_SECONDS)
    before = (await load.model())["left"]
    left = monotonic()
    for reader in readers:
        reader.cut()
    moments: list[float] = []
    while monotonic() < left + watched and len(moments) < LEAVING:
        await asyncio.sleep(0.1)
        moments = (await load.model())["left"][len(before) :]
    return {
        "readers": LEAVING,
        "stopped": len(moments),
        "after_seconds": round(max(moments) - left, 2) if moments else None,
        "watched_seconds": watched,
    }


async def _done(readers: Sequence[Reader], seconds: float) -> None:
    await until(lambda: all(reader.done for reader in readers), seconds)


def _survivor(reader: Reader) -> list[Text]:
    try:
        return reader.texts()
    except ProtocolError:
        return []


def _content(load: Load, tally: Tally) -> dict[str, Any]:
    failures, load.failures = load.failures, []
    return {
        "content": asdict(tally),
        "failed": len(failures),
        "failures": failures[:3],
    }
