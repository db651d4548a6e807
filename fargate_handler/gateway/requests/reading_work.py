"""The work of reading requests: rated by sender, and done beside the event loop where it is much.

One thread does it, and senders take turns. Python runs one thread at a time, so the event loop
waits for the thread, but only for a moment.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from evenflow.fargate_handler.gateway.requests.kept_requests import KeptRequests, Name
from evenflow.fargate_handler.orchestrator.held_requests import memory_of, memory_of_text
from evenflow.fargate_handler.orchestrator.turns_at_the_store import TurnsAtTheStore
from evenflow.fargate_handler.orchestrator.whole_request import WholeRequest
from evenflow.stream_core.fairness.fair_queue import Line
from evenflow.stream_core.policy.address_rates import AddressRates
from evenflow.stream_core.policy.limits import Limits
from evenflow.stream_core.policy.memory_account import MemoryPart
from evenflow.stream_core.protocol.errors import RateLimited
from evenflow.stream_core.protocol.request_bounds import check_bounds

VALUE_BYTES = 100
"""A JSON value is as much work as so many bytes of text, about."""
_BURST_SECONDS = 16
_AT_ONCE_BYTES = 131_072
"""What is smaller is read by the event loop, in a few milliseconds."""
_SWITCH_SECONDS = 0.001
"""How long the event loop waits for the thread, unless it is within one call of a library."""

T = TypeVar("T")


class ReadingWork:
    """Reads requests, and counts what is read by its sender.

    Args:
        monotonic: seconds on a clock that never goes back.
        memory: that of requests.
    """

    def __init__(self, limits: Limits, monotonic: Callable[[], float], memory: MemoryPart) -> None:
        self._limits = limits
        self._monotonic = monotonic
        rate = limits.request_bytes_per_address_per_second
        self._rates = AddressRates(rate, burst_seconds=_BURST_SECONDS)
        self._kept = KeptRequests(memory)
        self._turns = TurnsAtTheStore(1)
        in_short_turns = partial(sys.setswitchinterval, _SWITCH_SECONDS)
        self._thread = ThreadPoolExecutor(1, "reading", in_short_turns)

    def check(self, line: Line) -> None:
        """Check that a sender may have more read.

        Raises:
            RateLimited: too much was read for it lately.
        """
        seconds = self._rates.empty_for(line.address, line.tenant, self._monotonic())
        if seconds:
            raise RateLimited(
                "too much was read for requests from this address; nothing was accepted, send it "
                "again later",
                code="address_bytes",
                retry_after_ms=math.ceil(seconds * 1000),
            )

    def count(self, line: Line, size: int) -> None:
        """Count so many bytes that are read for a sender."""
        self._rates.spend(line.address, line.tenant, self._monotonic(), size)

    async def read(
        self,
        line: Line,
        body: bytes | bytearray,
        read: Callable[[bytes | bytearray], T],
        hold: Callable[[int], None] = lambda _size: None,
    ) -> T:
        """Read a body, whose bytes are counted already, once its bounds are checked.

        Args:
            hold: told how much memory it takes when it is read. It may raise.

        Raises:
            TooLarge: it has too many values.
            InvalidRequest: one of its lists is too long.
        """
        size = len(body)
        values, memory = await self.run(line, size, self._measured, body)
        self.count(line, VALUE_BYTES * values)
        hold(memory)
        return await self.run(line, memory, read, body)

    async def stored(
        self,
        line: Line,
        name: Name,
        text_of: Callable[[], Awaitable[str | None]],
        hold: Callable[[int], None] = lambda _size: None,
    ) -> WholeRequest | None:
        """The request of a response, from its stored text unless it was read lately.

        Args:
            name: the response's id and channel. The sender may read what is there.
            text_of: reads that text. None: it is no longer kept.
            hold: told how much memory it takes. It may raise.

        Raises:
            RateLimited: too much was read for the sender lately.
            Overloaded: the store can't be read.
        """
        known = self._kept.get(name)
        if known is not None:
            request, size = known
            hold(size)
            return request
        self.check(line)
        text = await text_of()
        if text is None:
            return None
        size = memory_of_text(text)
        self.count(line, size)
        hold(size)
        request = await self.run(line, size, WholeRequest.from_text, text)
        self._kept.keep(name, request, size)
        return request

    async def run(self, line: Line, size: int, work: Callable[..., T], *arguments: object) -> T:
        """Do work on a request: beside the event loop, and when it is its sender's turn, if its
        size is large.
        """
        if size <= _AT_ONCE_BYTES:
            return work(*arguments)
        async with self._turns.turn(line):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, partial(work, *arguments))

    def _measured(self, body: bytes | bytearray) -> tuple[int, int]:
        """How many values a body has, and how much memory it takes when it is read."""
        return check_bounds(body, self._limits), memory_of(body)
