"""A reader that only wakes a waiting request; long-polls and SSE streams read the log themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from stream_core.errors import RateLimited
from stream_core.limits import Limits
from stream_core.response_stream import ResponseStream


class WakingReader:
    """Attached to a stream, it remembers that the log has grown until someone asks."""

    __slots__ = ("_news", "left_behind")

    def __init__(self) -> None:
        self.left_behind = False
        """Whether the stream was lost: another one has the rest."""
        self._news = asyncio.Event()

    @property
    def holds_model(self) -> bool:
        """See `Reader.holds_model`: a request never pauses."""
        return False

    def deliver(self, now: float, jitter: float | None) -> None:
        """See `Reader.deliver`."""
        self._news.set()

    def lost(self) -> None:
        """See `Reader.lost`."""
        self.left_behind = True
        self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for news at most so long; whether there is any. What there was when it was attached counts as news, once."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


@contextmanager
def reading(stream: ResponseStream, limits: Limits) -> Iterator[WakingReader]:
    """Be a reader of `stream` for the length of a request.

    Raises:
        RateLimited: the response has as many readers as it may.
    """
    if len(stream.readers) >= limits.readers_per_response:
        raise RateLimited(
            "this response has as many readers as it may; close one and ask again",
            code="response_readers",
            retry_after_ms=1000,
        )
    reader = WakingReader()
    stream.attach(reader)
    try:
        yield reader
    finally:
        stream.detach(reader)
