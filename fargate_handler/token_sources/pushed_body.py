"""Reads the body of a model's answer in the turns in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import aiohttp

from fargate_handler.token_sources.model_connection import while_paused
from fargate_handler.token_sources.port import TokenSink


class PushedBody:
    """Gives each piece of an answer's body to `take`, in the turn of the loop in which it comes.

    No task is woken for a piece: that would cost more than all else that is done with a token.

    Args:
        take: takes a piece. Returns whether it wants more.
        sink: while it is paused nothing is taken, so the server waits.
    """

    def __init__(
        self, answer: aiohttp.ClientResponse, take: Callable[[bytes], bool], sink: TokenSink
    ) -> None:
        self._content = answer.content
        self._take = take
        self._sink = sink
        self._over = self._held = False
        self._error: Exception | None = None
        self._call = asyncio.Event()
        # A connection whose answer came whole is free already.
        transport = answer.connection.transport if answer.connection is not None else None
        self._tap = _Tap(transport, self._take_all) if transport is not None else None

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
                    self._held = False
                    self._take_all()
        finally:
            self._finish(None)
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its frames refer to this one

    def _take_all(self) -> None:
        """Take what has come. Called whenever the connection has news, so it mustn't raise."""
        if self._over or self._held:
            return
        content, sink = self._content, self._sink
        try:
            while piece := content.read_nowait():
                if not self._take(piece):
                    self._finish(None)
                    return
                if sink.paused:
                    self._held = True
                    self._call.set()
                    return
            if content.at_eof():
                self._finish(None)
        except Exception as error:  # whoever waits in `read` is told
            self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        self._call.set()
        # At once: in the next turn the connection may have another answer.
        if self._tap is not None:
            self._tap.remove()


class _Tap(asyncio.Protocol):
    """Stands between a transport and its protocol, and says when something has come."""

    def __init__(self, transport: asyncio.Transport, came: Callable[[], None]) -> None:
        self._transport = transport
        self._protocol = cast("asyncio.Protocol", transport.get_protocol())
        self._feed = self._protocol.data_received
        self._came = came
        transport.set_protocol(self)

    def remove(self) -> None:
        """Give the transport its own protocol again."""
        self._transport.set_protocol(self._protocol)

    def data_received(self, data: bytes) -> None:
        """As of `asyncio.Protocol`, like all that follow."""
        self._feed(data)
        self._came()

    def eof_received(self) -> bool | None:
        keeps_open = self._protocol.eof_received()
        self._came()
        return keeps_open

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
        self._came()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
