"""An engine, Evenflow before it with one of the orders, and what a stretch of load found there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

import aiohttp
import orjson

from bench.evenflow import ACTIVE_CONNECTIONS, Evenflow, evenflow
from bench.fairness.load import Answered, HTTPLoad, Load
from bench.fairness.tenants import ALL, key_of
from bench.metrics_page import scrape
from bench.processes import START_SECONDS, Child, Usage, child
from tests.integration.server_process import free_port

PLACES = 24  # of all tasks; with the quarter that is for others 30, of the engine's 32 sequences
GRACE_SECONDS = 2.0  # what was asked last may have a first token until then
EMPTY_SECONDS = 30.0
# Of a core: what handlers do that are asked nothing is less.
IDLE_PERCENT = 10.0


@dataclass(frozen=True)
class Stretch:
    """What came of the load between two moments."""

    begin: float
    end: float
    answers: list[Answered]
    engine: dict[int, tuple[float, float, float]]
    """When each number came to the engine, was taken into the batch, and had its first token."""
    server: Usage
    model: Usage

    def of(self, tenant: str) -> list[Answered]:
        return [it for it in self.answers if it.order.tenant == tenant]

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers that clients were given."""
        given = sum(self.begin <= at < self.end for it in self.answers for at in it.tokens)
        return given / (self.end - self.begin)

    @property
    def faults(self) -> int:
        """Answers with a token missing, twice, or in a wrong place."""
        return sum(not it.intact for it in self.answers)


Asking = Callable[[Load, float, float], Awaitable[object]]
"""Asks from a moment on and until another one."""


class System(Protocol):
    """Both, running."""

    async def stretch(self, seconds: float, *asking: Asking) -> Stretch:
        """Load for so long. It begins and ends with an engine that has nothing to do."""


class Processes(System):
    """Both as processes, in real time."""

    def __init__(self, server: Evenflow, model: Child, model_port: int) -> None:
        self._server = server
        self._model = model
        self._model_url = f"http://127.0.0.1:{model_port}/answers"

    async def stretch(self, seconds: float, *asking: Asking) -> Stretch:
        load = HTTPLoad(self._server.http_url)
        begin = monotonic()
        before = self._server.process.usage(), self._model.usage()
        await asyncio.gather(*(ask(load, begin, begin + seconds) for ask in asking))
        end = monotonic()
        after = self._server.process.usage(), self._model.usage()
        await asyncio.sleep(GRACE_SECONDS)
        found = await self._engine()
        answers = load.leave()
        await self._empty()
        return Stretch(
            begin,
            end,
            answers,
            {int(number): times for number, times in found["answers"].items()},
            after[0] - before[0],
            after[1] - before[1],
        )

    async def _engine(self) -> dict[str, dict[str, tuple[float, float, float]]]:
        async with aiohttp.ClientSession() as http, http.get(self._model_url) as answer:
            return orjson.loads(await answer.read())  # type: ignore[no-any-return]

    async def _empty(self) -> None:
        """Wait until all that was left has ended, and the handlers have tidied up behind it."""
        deadline = monotonic() + EMPTY_SECONDS
        while True:
            before = self._server.process.usage()
            await asyncio.sleep(1.0)
            idle = (self._server.process.usage() - before).server_percent < IDLE_PERCENT
            page, engine = await scrape(self._server.http_url), await self._engine()
            queued = page.value("evenflow_queue_depth") + page.value("evenflow_generations_running")
            if idle and not (queued or engine["running"] or engine["waiting"]):
                return
            if monotonic() > deadline:
                raise RuntimeError(f"the handlers are not idle, and have {queued:g} answers")


@asynccontextmanager
async def system(
    order: str, tasks: int, places: int | None = PLACES, fleet: bool = False
) -> AsyncIterator[System]:
    """Start both, with so many tasks of Evenflow behind one port.

    `places` of all tasks together; None: as many as by default. `fleet`: a service that refuses
    what is too much, in the place of the engine.
    """
    port = free_port()
    bounds: dict[str, Any] = {}
    if places is not None:
        bounds["generations_per_node"] = places // tasks
    async with (
        child(
            ["bench.fairness.engine_server", str(port), *(["--fleet"] if fleet else [])],
            ports=(port,),
            core=None,
        ) as model,
        evenflow(
            core=None,
            admission={},
            module=["bench.fairness.handler", order],
            model="openai",
            model_url=f"http://127.0.0.1:{port}/v1",
            model_name="demo",
            processes=tasks,
            **bounds,
            tenant_keys=orjson.dumps({tenant: key_of(tenant) for tenant in ALL}).decode(),
        ) as server,
    ):
        deadline = monotonic() + START_SECONDS
        while len((await scrape(server.http_url)).by_process(ACTIVE_CONNECTIONS)) < tasks > 1:
            if monotonic() > deadline:
                raise RuntimeError(f"{tasks} tasks do not serve")
            await asyncio.sleep(0.1)
        server.process.begin()
        yield Processes(server, model, port)
