"""What tenants ask, and when; and what each answer was, with its times.

All times are `time.monotonic` seconds, which processes share.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, cycle, islice, pairwise, repeat
from math import inf
from time import monotonic
from typing import Protocol
from urllib.parse import urlsplit

from bench.event_reader import CompletionReader
from bench.fairness.engine_server import question
from bench.fairness.tenants import key_of
from bench.trace import TRACE, read_trace
from bench.upstream import sent_tokens

LONGEST_PROMPT = 1_024  # longer ones of the trace are cut
APART_SECONDS = 0.02
_OK = b"HTTP/1.1 200"
_numbers = count(1)


@dataclass(frozen=True)
class Order:
    """One request: who asks, tokens of the prompt and of the answer, seconds after the first one
    where it is on a schedule, and whether the engine computes its prompt before others.
    """

    tenant: str
    prompt: int
    answer: int
    after: float = 0.0
    preferred: bool = False


@dataclass(frozen=True)
class Answered:
    """What became of an order. `tokens`: when each came that has come."""

    order: Order
    number: int  # the engine knows it by this
    asked_at: float
    tokens: Sequence[float]
    refused: bool  # by the status
    intact: bool  # what came is the beginning of what was sent

    @property
    def first_token(self) -> float:
        """Seconds, infinite where none came."""
        return self.tokens[0] - self.asked_at if self.tokens else inf


class Asker(Protocol):
    """One request. `ended`: it was answered or refused."""

    ended: asyncio.Future[None]

    def answered(self) -> Answered:
        """What has come."""


class HTTPAsker(CompletionReader):
    """One request on a connection of its own."""

    def __init__(self, host: str, order: Order) -> None:
        super().__init__(host, key_of(order.tenant))
        self.order = order
        self.number = next(_numbers)
        self.refused = False
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        order = self.order
        self.ask(question(order.prompt, order.answer, self.number, order.preferred))

    def data_received(self, data: bytes) -> None:
        self.refused |= not self.begun and not data.startswith(_OK)
        super().data_received(data)
        if self.refused or self.idle:
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
            self.close()

    def answered(self) -> Answered:
        """What has come. It costs more than reading, so it waits until the clock has stopped."""
        numbers, times = [], []
        for at, text in self.deltas():
            for number, _ in sent_tokens(text):
                numbers.append(number)
                times.append(at)
        return Answered(
            self.order,
            self.number,
            self.asked_at,
            times,
            self.refused,
            numbers == list(range(len(numbers))),
        )


class Load(ABC):
    """Asks by a schedule, or as many questions as wait. Moments are seconds by `now`."""

    @abstractmethod
    def now(self) -> float:
        """Seconds."""

    @abstractmethod
    async def ask(self, order: Order) -> Asker:
        """Send a request."""

    async def until(self, moment: float) -> None:
        """Wait; returns at once when it has passed."""
        if (early := moment - self.now()) > 0:
            await asyncio.sleep(early)

    async def follow(self, orders: Iterable[Order], begin: float) -> None:
        """Ask by a schedule, whatever becomes of those before."""
        async with asyncio.TaskGroup() as asking:
            for order in orders:
                await self.until(begin + order.after)
                asking.create_task(self.ask(order))

    async def keep_waiting(self, orders: Iterator[Order], at_once: int, end: float) -> None:
        """Have so many requests there at once until a moment: each that ends is followed by one."""

        async def one_after_the_other(number: int) -> None:
            # So that of tenants who begin together none has all places.
            await asyncio.sleep(number * APART_SECONDS)
            while (left := end - self.now()) > 0:
                asker = await self.ask(next(orders))
                ended, _ = await asyncio.wait((asker.ended,), timeout=left)
                if not ended:
                    return  # in virtual time it may be a rounding error before `end`

        await asyncio.gather(*(one_after_the_other(number) for number in range(at_once)))


class HTTPLoad(Load):
    """Connections to one server."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 80
        self.askers: list[HTTPAsker] = []

    def now(self) -> float:
        """As `time.monotonic`."""
        return monotonic()

    async def ask(self, order: Order) -> HTTPAsker:
        """Send a request.

        Raises:
            OSError: there is no connection.
        """
        host, port = self._host, self._port
        _, asker = await asyncio.get_running_loop().create_connection(
            lambda: HTTPAsker(f"{host}:{port}", order), host, port
        )
        self.askers.append(asker)
        return asker

    def leave(self) -> list[Answered]:
        """Close all connections. Returns what became of all requests."""
        for asker in self.askers:
            asker.close()
        answered = [asker.answered() for asker in self.askers]
        self.askers.clear()
        return answered


def recorded(tenant: str, rate: float, seconds: float) -> list[Order]:
    """So many requests a second, as those of the trace: every n-th where that has more, otherwise
    all of them, quicker than they were, and again from the first one where it is too short.
    """
    requests = read_trace(TRACE, inf)
    requests = requests[:: max(1, round(len(requests) / requests[-1][0] / rate))]
    pauses = [later - earlier for (earlier, _, _), (later, _, _) in pairwise(requests)]
    pauses.append(sum(pauses) / len(pauses))
    asked = round(rate * seconds)
    *moments, end = islice(accumulate(cycle(pauses), initial=0.0), asked + 1)
    return [
        Order(tenant, min(prompt, LONGEST_PROMPT), answer, at * seconds / end)
        for at, (_, prompt, answer) in zip(moments, cycle(requests), strict=False)
    ]


def recorded_answers(tenant: str, prompt: int, longest: int) -> Iterator[Order]:
    """Requests without an end, whose answers are as long as those of the trace."""
    for _, _, answer in cycle(read_trace(TRACE, inf, longest)):
        yield Order(tenant, prompt, answer)


def alike(tenant: str, prompt: int, answer: int) -> Iterator[Order]:
    """Requests without an end, all of the same size."""
    return repeat(Order(tenant, prompt, answer))
