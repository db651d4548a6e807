"""Parses requests: rate-limited by address, and large ones in a thread beside the event loop.

There is one thread, which serves addresses round-robin. Python runs one thread at a time, so the
event loop waits for it, but for a millisecond at most.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from evenflow.fargate_handler.orchestrator.fair_semaphore import FairSemaphore
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.orchestrator.request_memory import memory_of, memory_of_text
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.protocols.request_bounds import check_bounds
from evenflow.stream_core.queue.fair_queue import Line

CacheKey = tuple[str, Channel]
"""A response's id and its channel: a client can name the id of another's response in its own."""

_SHARE = 16
"""The cache may take a sixteenth of the memory for requests."""
_TURN_BYTES = 1_024
"""The memory of a turn without its text, with what a protocol repeats of it."""


class RequestCache:
    """Requests by their responses' ids and channels. The least recently used is evicted first.

    Args:
        memory: where their bytes are counted.
    """

    def __init__(self, memory: MemoryPart) -> None:
        self._memory = memory
        self._max_bytes = memory.most // _SHARE
        self._bytes = 0
        self._entries: OrderedDict[CacheKey, tuple[WholeRequest, int]] = OrderedDict()

    def get(self, key: CacheKey) -> tuple[WholeRequest, int] | None:
        """The request and its memory in bytes. None: it is not cached."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: CacheKey, request: WholeRequest, text_bytes: int) -> None:
        """Cache a request, unless it is too large or memory is short.

        Args:
            text_bytes: the memory of its text.
        """
        size = text_bytes + _TURN_BYTES * len(request.turns)
        if size > self._max_bytes or key in self._entries or self._memory.lacks_room(size):
            return
        self._entries[key] = request, size
        self._add(size)
        while self._bytes > self._max_bytes:
            _, (_, size) = self._entries.popitem(last=False)
            self._add(-size)

    def _add(self, size: int) -> None:
        self._bytes += size
        self._memory.bytes += size


VALUE_BYTES = 100
"""Reading a JSON value takes about as long as reading 100 bytes of text."""
_BURST_SECONDS = 16
_SMALL_BYTES = 131_072
"""Smaller requests are read by the event loop, in a few milliseconds."""
_SWITCH_SECONDS = 0.001
"""How long the event loop waits for the thread, unless that is within one call of a library."""

_T = TypeVar("_T")


class ReadingWork:
    """Parses requests, and limits the bytes a second of each address.

    Args:
        monotonic: seconds on a clock that never goes back.
        memory: the memory for requests.
    """

    def __init__(self, limits: Limits, monotonic: Callable[[], float], memory: MemoryPart) -> None:
        self._limits = limits
        self._monotonic = monotonic
        rate = limits.request_bytes_per_address_per_second
        self._rates = AddressRates(rate, burst_seconds=_BURST_SECONDS)
        self._cache = RequestCache(memory)
        self._turns = FairSemaphore(1)
        in_short_turns = partial(sys.setswitchinterval, _SWITCH_SECONDS)
        self._thread = ThreadPoolExecutor(1, "reading", in_short_turns)

    def check(self, line: Line) -> None:
        """Check the rate of bytes of a line's address.

        Raises:
            RateLimited: too many bytes were read for it recently.
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
        """Count `size` bytes that are read for a line's address."""
        self._rates.spend(line.address, line.tenant, self._monotonic(), size)

    async def read(
        self,
        line: Line,
        body: bytes | bytearray,
        parse: Callable[[bytes | bytearray], _T],
        reserve: Callable[[int], None] = lambda _size: None,
    ) -> _T:
        """Check the bounds of a body and parse it. Its bytes are counted already.

        Args:
            reserve: called with the memory that it takes. It may raise.

        Raises:
            TooLarge: it has too many values.
            InvalidRequest: one of its lists is too long.
        """
        size = len(body)
        values, memory = await self.run(line, size, self._measure, body)
        self.count(line, VALUE_BYTES * values)
        reserve(memory)
        return await self.run(line, memory, parse, body)

    async def read_stored(
        self,
        line: Line,
        key: CacheKey,
        text_of: Callable[[], Awaitable[str | None]],
        reserve: Callable[[int], None] = lambda _size: None,
    ) -> WholeRequest | None:
        """The request of a response, from the cache or its stored text.

        Args:
            key: the response's id and channel, which the sender may read.
            text_of: reads the stored text. None: it is no longer stored.
            reserve: called with the memory that it takes. It may raise.

        Raises:
            RateLimited: too many bytes were read for the sender lately.
            Overloaded: the store can't be read.
        """
        cached = self._cache.get(key)
        if cached is not None:
            request, size = cached
            reserve(size)
            return request
        self.check(line)
        text = await text_of()
        if text is None:
            return None
        size = memory_of_text(text)
        self.count(line, size)
        reserve(size)
        request = await self.run(line, size, WholeRequest.from_text, text)
        self._cache.put(key, request, size)
        return request

    async def run(self, line: Line, size: int, work: Callable[..., _T], *arguments: object) -> _T:
        """Do work on a request. Work on a large one waits for its turn, and runs in the thread."""
        if size <= _SMALL_BYTES:
            return work(*arguments)
        async with self._turns.turn(line):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, partial(work, *arguments))

    def _measure(self, body: bytes | bytearray) -> tuple[int, int]:
        """The number of values in a body, and the memory that it takes once parsed."""
        return check_bounds(body, self._limits), memory_of(body)
