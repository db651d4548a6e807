"""The first protocol of a connection: its head decides who has it from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

_END_OF_HEAD = b"\r\n\r\n"


class HeadFirst(asyncio.BufferedProtocol):
    """Reads a connection's first head, then answers it or gives the connection to another protocol.

    The bytes go into the other protocol's own buffer, so that its bounds of a head's size and time
    hold, and nothing is copied back. Once it has the connection, this object is gone and costs nothing.

    Args:
        following: who has the connection when nothing speaks against it.
        refusal: the whole answer to a head that `following` is not to see, and None for any other.
            It is given the head without the empty line at its end.
    """

    __slots__ = ("_following", "_head", "_refusal", "_refused", "_transport", "_window")

    def __init__(
        self,
        following: asyncio.BufferedProtocol,
        refusal: Callable[[bytes], bytes | None],
    ) -> None:
        self._following = following
        self._refusal = refusal
        self._head = bytearray()
        self._refused = False
        self._transport: asyncio.Transport
        self._window: memoryview

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = cast("asyncio.Transport", transport)
        self._following.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Gone before its head was whole, or behind the answer."""
        self._following.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        self._window = memoryview(self._following.get_buffer(sizehint))
        return self._window

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes came."""
        if self._refused:
            # A socket that is closed with unread bytes is reset, and the answer may be lost with it.
            return  # so the client closes, or the time for handshakes is up
        self._head += self._window[:nbytes]
        end = self._head.find(_END_OF_HEAD)
        if end >= 0:
            answer = self._refusal(bytes(self._head[:end]))
            if answer is not None:
                self._refused = True
                self._transport.write(answer)
                self._transport.write_eof()
                return
            self._transport.set_protocol(self._following)
        self._following.buffer_updated(nbytes)
