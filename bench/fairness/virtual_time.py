"""The same measurement in virtual time: handler tasks without sockets, and the engine, in one event
loop whose clock jumps to what is due next. Computing takes no time, and each run has the same
figures. Connections are spread over tasks at random, as the kernel spreads them; a seed is a
spread.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from selectors import DefaultSelector, SelectorKey
from typing import Any, TypeVar

from bench.fairness.engine import Costs, Request
from bench.fairness.engine_server import DIRECTIVE, EngineLoop, Fleet, Model, Refused, question
from bench.fairness.load import Answered, Load, Order
from bench.fairness.system import GRACE_SECONDS, Asking, Stretch
from bench.fairness.tenants import RECORDS
from bench.processes import Usage
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.token_sources.port import (
    ModelFinish,
    ModelRequest,
    TokenSink,
    TokenSource,
)
from evenflow.stream_core.base.agents import NO_TERMS, MessageTerms
from evenflow.stream_core.base.answer import Usage as Counted
from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.base.errors import EvenflowError, RateLimited, UpstreamAnswered
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.tenants.tenant import Tenant
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task

T = TypeVar("T")

_TOKEN = "x" * 16
_EMPTY_SECONDS = 3.0  # until tasks have forgotten what was cancelled
# What `/v1` asks without a key, read to its end without a reader.
_KIND = MessageKind(
    grace_seconds=86_400.0, repeatable=False, read_by_program=True, falls_back=False
)
_NO_TIME = Usage(1.0, 0.0, 0.0, 0.0, 0.0)
_REFUSED_AFTER_SECONDS = 0.01


class _JumpingSelector(DefaultSelector):
    """Where the loop would wait, time passes instead, a slot of the delivery clock at most."""

    def __init__(self) -> None:
        super().__init__()
        self.turn: Callable[[float], None] = lambda seconds: None

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.turn(SLOT_SECONDS if timeout is None else min(timeout, SLOT_SECONDS))
        return super().select(0)


def run(seed: int, main: Callable[["Spread"], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in virtual time, with connections spread by `seed`."""
    selector = _JumpingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(Spread(seed, selector)))


class Spread:
    """The loop of a system in virtual time, and who asks which of its tasks."""

    def __init__(self, seed: int, selector: _JumpingSelector) -> None:
        self.random = Random(seed)
        self.selector = selector


class _Asker:
    """One request at one of the tasks."""

    def __init__(self, order: Order, number: int, now: float) -> None:
        self.order, self.number, self.asked_at = order, number, now
        self.ended = asyncio.get_running_loop().create_future()
        self.tokens: list[float] = []
        self.refused = False
        self.stream: ResponseStream | None = None

    def refuse(self) -> None:
        self.refused = True
        self.ended.set_result(None)

    def look(self) -> None:
        """Note whether the handler has told the client that its call was refused."""
        if (
            not self.refused
            and self.stream is not None
            and self.stream.state is ResponseState.ERROR
        ):
            self.refuse()

    def answered(self) -> Answered:
        return Answered(
            self.order, self.number, self.asked_at, self.tokens, self.refused, intact=True
        )


class _Call:
    """One call of the engine."""

    def __init__(self, asker: _Asker, sink: TokenSink, engine: Model) -> None:
        self._asker, self._sink, self._engine = asker, sink, engine
        order = asker.order
        self.request = Request(order.prompt, order.answer, order.preferred)
        self.finished: asyncio.Future[ModelFinish] = asyncio.get_running_loop().create_future()

    def send_token(self) -> None:
        asker, request = self._asker, self.request
        if not asker.tokens:
            self._engine.begun(asker.number, request)
        asker.tokens.append(asyncio.get_running_loop().time())
        self._sink.push(_TOKEN)
        if request.ended:
            counted = Counted(prompt_tokens=request.prompt, completion_tokens=request.generated)
            self.finished.set_result(ModelFinish("stop", counted))
            asker.ended.set_result(None)


class _EngineSource(TokenSource):
    """The engine as tasks call it."""

    continues = False

    def __init__(self, engine: Model) -> None:
        self.engine = engine
        self.askers: dict[int, _Asker] = {}

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        _, number, _ = DIRECTIVE.findall(request.turns[-1].text)[-1]
        asker = self.askers[int(number)]
        call = _Call(asker, sink, self.engine)
        try:
            self.engine.add(call.request, call)
        except Refused:
            await asyncio.sleep(_REFUSED_AFTER_SECONDS)
            asyncio.get_running_loop().call_later(SLOT_SECONDS, asker.look)
            raise UpstreamAnswered(
                "too many calls at once",
                code="rate_limit_exceeded",
                status=RateLimited.status,
                type=RateLimited.type,
            ) from None
        try:
            return await call.finished
        finally:
            self.engine.remove(call.request)

    async def close(self) -> None:
        """Nothing is open."""


class VirtualTime(Load):
    """Tasks that share their stores, before an engine, and who asks them."""

    def __init__(self, tasks: list[Task], source: _EngineSource, random: Random) -> None:
        self._tasks, self._source, self._random = tasks, source, random
        self._numbers = count(1)

    def now(self) -> float:
        """Seconds on the loop's clock."""
        return asyncio.get_running_loop().time()

    async def ask(self, order: Order, terms: MessageTerms = NO_TERMS) -> _Asker:
        """Ask one of the tasks."""
        number = next(self._numbers)
        asker = _Asker(order, number, self.now())
        self._source.askers[number] = asker
        channel = Channel(order.tenant, "bench", f"s{number}")
        text = question(order.prompt, order.answer, number, order.preferred)
        message = IncomingMessage(channel, "m", None, text, terms=terms, kind=_KIND)
        try:
            task = self._random.choice(self._tasks)
            asker.stream = (await task.orchestrator.submit(message)).stream
        except EvenflowError:
            asker.refuse()
        return asker

    async def stretch(self, seconds: float, *asking: Asking) -> Stretch:
        """Load for so long. It begins and ends with an engine that has nothing to do."""
        begin = self.now()
        await asyncio.gather(*(ask(self, begin, begin + seconds) for ask in asking))
        end = self.now()
        await asyncio.sleep(GRACE_SECONDS)
        for task in self._tasks:
            for generation in tuple(task.workload.generations):
                generation.cancel()
        await asyncio.sleep(_EMPTY_SECONDS)
        engine = self._source.engine
        if engine.running or engine.waiting:
            raise RuntimeError(f"{engine.running} answers go on that nobody reads")
        answers = [asker.answered() for asker in self._source.askers.values()]
        self._source.askers.clear()
        gc.collect()
        return Stretch(begin, end, answers, dict(engine.answers), _NO_TIME, _NO_TIME)


@asynccontextmanager
async def system(
    spread: Spread,
    tasks: int,
    places: int | None,
    fleet: bool = False,
    records: Sequence[Tenant] = RECORDS,
    costs: Costs = Costs(),  # noqa: B008
) -> AsyncIterator[VirtualTime]:
    """As the system of processes. At the end its tasks are dropped with their loop."""
    shared = Shared()
    spread.selector.turn = shared.clock.turn
    shared.tenants.replace(records)
    now = shared.clock.monotonic
    source = _EngineSource(Fleet(now) if fleet else EngineLoop(now, costs))
    bounds = {} if places is None else {"generations_per_node": places // tasks}
    joined = []
    for number in range(tasks):
        joined.append(await Task.join(shared, f"task-{number}", Limits(**bounds), source))
        await asyncio.sleep(spread.random.random())  # else all would tell each other at once
    yield VirtualTime(joined, source, spread.random)
