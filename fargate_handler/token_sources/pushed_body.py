"""Reads the body of a model's answer in the turns in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from evenflow.fargate_handler.token_sources.guarded_connector import guard_of
from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.plain_chunks import PlainChunks
from evenflow.fargate_handler.token_sources.port import TokenSink

# Bodies that are read while the loop polls its sockets: that takes a few milliseconds.
_BODIES_PER_TURN = 128
# Bytes of one body per turn. A model's tokens are fewer; a flood waits for its next turn. With
# 32 KiB ten floods of small pieces delayed first tokens of others by 0.4 s, with this by 40 ms.
_BYTES_PER_TURN = 2_048


class Arrivals:
    """Schedules the bodies with new bytes in this turn of the event loop.

    A body is best read at once, while its data is in the processor's cache. But while a thousand
    sockets have data, the loop polls them again, and the clock is late. So the bodies after the
    first ones are read at the end of the turn.
    """

    __slots__ = ("_deferred", "_read_count")

    def __init__(self) -> None:
        self._read_count = 0
        self._deferred: list[Callable[[], None]] = []

    def take(self, take: Callable[[], None]) -> None:
        """Call `take` now, or at the end of this turn. It must not raise."""
        if not self._read_count:
            asyncio.get_running_loop().call_soon(self._end_turn)
        if self._read_count < _BODIES_PER_TURN:
            self._read_count += 1
            take()
        else:
            self._deferred.append(take)

    def _end_turn(self) -> None:
        deferred, self._deferred = self._deferred, []
        self._read_count = 0
        for take in deferred:
            take()


class PushedBody:
    """Passes each piece of an answer's body to `take`, in the loop's turn in which it arrives.

    No task is woken for a piece: that would cost more than all else that is done with a token.

    Args:
        answer: an answer over a connection of a `GuardedConnector`.
        take: processes a piece. Returns whether more may follow. After a pause it is empty.
        sink: while it is paused, nothing is read, so the server waits.
        arrivals: the schedule of all bodies.
    """

    __slots__ = (
        "_arrivals",
        "_chunks",
        "_content",
        "_error",
        "_guard",
        "_is_over",
        "_is_paused",
        "_is_scheduled",
        "_sink",
        "_take",
        "_waiter",
    )

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        take: Callable[[bytes], bool],
        sink: TokenSink,
        arrivals: Arrivals,
    ) -> None:
        self._content = answer.content
        self._take = take
        self._sink = sink
        self._arrivals = arrivals
        self._is_over = self._is_paused = self._is_scheduled = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        # The connection of a whole answer is already released.
        transport = answer.connection.transport if answer.connection is not None else None
        self._guard = None if transport is None else guard_of(transport)
        self._chunks: PlainChunks | None = None
        if self._guard is not None:
            self._chunks = self._guard.chunks
            self._guard.on_data = self._came

    async def read(self) -> None:
        """Read until the body ends, or `take` returns False.

        Raises:
            aiohttp.ClientError: the body broke off. Also whatever `take` raises.
        """
        try:
            self._take_all()
            while not self._is_over:
                if self._is_paused:
                    await while_paused(self._sink)
                    self._go_on()
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
        finally:
            self._finish(None)
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its frames refer to this one

    def _go_on(self) -> None:
        """Process the bytes that were buffered in a pause, and later ones."""
        if not self._take(b""):
            self._finish(None)
        elif not self._sink.paused:
            self._is_paused = False
            self._take_all()

    def _came(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._arrivals.take(self._take_all)

    def _take_all(self) -> None:
        """Process the bytes that have arrived."""
        self._is_scheduled = False
        if self._is_over or self._is_paused:
            self._leave_rest()
            return
        guard, content = self._guard, self._content
        try:
            chunks = self._chunks
            if guard is not None and chunks is not None and chunks is guard.chunks:
                piece = chunks.read(_BYTES_PER_TURN)
                if piece and not self._take_piece(piece):
                    return
                if chunks.is_plain and not guard.is_lost:
                    return  # nearly every call is like this
                guard.hand_over()
            while piece := content.read_nowait(_BYTES_PER_TURN):
                if not self._take_piece(piece):
                    return
            if content.at_eof():
                self._finish(None)
            elif guard is None or guard.is_lost:
                # aiohttp doesn't notify the body if its parser found no end.
                self._finish(aiohttp.ClientPayloadError("the connection ended within the answer"))
        except Exception as error:  # `read` raises it
            self._finish(error)

    def _take_piece(self, piece: bytes) -> bool:
        """Process a piece. Returns whether the next one may follow in this turn."""
        if not self._take(piece):
            self._finish(None)
            return False
        if self._sink.paused:
            self._is_paused = True
            self._wake()
            self._leave_rest()
            return False
        if len(piece) == _BYTES_PER_TURN:
            # What is not taken fills aiohttp's buffer, and then it reads no more.
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._take_all)
            return False
        return True

    def _finish(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._error = error
        self._wake()
        self._leave_rest()

    def _wake(self) -> None:
        """Let `read` act."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _leave_rest(self) -> None:
        """Leave what comes next to aiohttp, which buffers little of it."""
        # A connection that was released has the next answer's chunks.
        if self._guard is not None and self._guard.chunks is self._chunks:
            self._guard.hand_over()
