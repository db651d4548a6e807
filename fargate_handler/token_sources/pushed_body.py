"""Reads the body of a model's answer in the turns in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from evenflow.fargate_handler.token_sources.guarded_connections import guard_of
from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.port import TokenSink

# So many bodies are taken while the loop looks at its sockets: that takes a few milliseconds.
_AT_ONCE = 128
# So much of one body. A model's tokens are less; a flood waits for its next turn. With 32 KiB ten
# floods of small pieces delayed first tokens of others by 0.4 s, with this by 40 ms.
_BYTES_AT_ONCE = 2_048


class Arrivals:
    """What has come in this turn of the event loop, of all bodies together.

    A body is best taken at once, while all that belongs to it is in the processor's cache. But as
    long as a thousand sockets have something, the loop looks at them again, and the clock waits.
    So what is beyond the first ones is taken after that.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._later: list[Callable[[], None]] = []

    def take(self, take: Callable[[], None]) -> None:
        """Call `take` now, or at the end of this turn. It must not raise."""
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._end_turn)
        if self._taken < _AT_ONCE:
            self._taken += 1
            take()
        else:
            self._later.append(take)

    def _end_turn(self) -> None:
        later, self._later = self._later, []
        self._taken = 0
        for take in later:
            take()


class PushedBody:
    """Gives each piece of an answer's body to `take`, in the turn of the loop in which it comes.

    No task is woken for a piece: that would cost more than all else that is done with a token.

    Args:
        answer: an answer over a connection of a `GuardedConnector`.
        take: takes a piece. Returns whether it wants more. After a pause it is given an empty one.
        sink: while it is paused nothing is taken, so the server waits.
        arrivals: of all bodies.
    """

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
        self._over = self._held = self._arrived = False
        self._error: Exception | None = None
        self._call = asyncio.Event()
        # A connection whose answer came whole is free already.
        transport = answer.connection.transport if answer.connection is not None else None
        self._guard = None if transport is None else guard_of(transport)
        if self._guard is not None:
            self._guard.came = self._came

    async def read(self) -> None:
        """Read until the body ends, or `take` wants no more.

        Raises:
            aiohttp.ClientError: the body broke off. Also whatever `take` raises.
        """
        try:
            self._take_all()
            while not self._over:
                await self._call.wait()
                self._call.clear()
                if self._held:
                    await while_paused(self._sink)
                    self._go_on()
        finally:
            self._finish(None)
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its frames refer to this one

    def _go_on(self) -> None:
        """Take what waited for the end of a pause, and what has come."""
        if not self._take(b""):
            self._finish(None)
        elif self._sink.paused:
            self._call.set()
        else:
            self._held = False
            self._take_all()

    def _came(self) -> None:
        if not self._arrived:
            self._arrived = True
            self._arrivals.take(self._take_all)

    def _take_all(self) -> None:
        """Take what has come."""
        self._arrived = False
        if self._over or self._held:
            return
        content, sink = self._content, self._sink
        try:
            while piece := content.read_nowait(_BYTES_AT_ONCE):
                if not self._take(piece):
                    self._finish(None)
                    return
                if sink.paused:
                    self._held = True
                    self._call.set()
                    return
                if len(piece) == _BYTES_AT_ONCE:
                    # What is not taken fills aiohttp's buffer, and then it reads no more.
                    self._arrived = True
                    asyncio.get_running_loop().call_soon(self._take_all)
                    return
            if content.at_eof():
                self._finish(None)
            elif self._guard is None or self._guard.lost:
                # aiohttp doesn't tell the body where its parser found no end.
                self._finish(aiohttp.ClientPayloadError("the connection ended within the answer"))
        except Exception as error:  # whoever waits in `read` is told
            self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        self._call.set()
