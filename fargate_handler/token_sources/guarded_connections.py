"""Connections to a model's server that are used again only if nothing unasked came over them."""

from __future__ import annotations

import asyncio
import re
import select
import socket
from collections.abc import Callable
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from evenflow.stream_core.base.errors import UpstreamUnreadable
from evenflow.stream_core.bounds.memory_bound import MODEL_READ_BYTES

_MOST_HEAD_BYTES = 65_536
_MOST_INTERIM = 16
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LAST_CHUNK = b"0\r\n\r\n"


class GuardedConnector(aiohttp.TCPConnector):
    """A pool of connections, each with a `Guard`.

    Args:
        keepalive_timeout: seconds for which a connection waits for the next request.
        on_unasked: called when a server sent something that nobody had asked for.
    """

    def __init__(self, keepalive_timeout: float, on_unasked: Callable[[], None]) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout, socket_factory=_small_socket)
        self._on_unasked = on_unasked

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> aiohttp.connector.Connection:
        """A connection on which nothing has come that could be taken for the answer."""
        while True:
            connection = await super().connect(req, traces, timeout)
            transport = connection.transport
            if transport is None:
                return connection  # lost already, as aiohttp will notice
            if guard_of(transport).begin(connection):
                return connection
            connection.close()

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> ResponseHandler:
        handler = await super()._create_connection(req, traces, timeout)
        if handler.should_close:
            handler.close()
            raise aiohttp.ClientConnectionError("the server spoke before it was asked")
        if handler.transport is not None:
            handler.transport.set_protocol(Guard(handler, handler.transport, self._on_unasked))
        return handler


def _small_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that bounds what is read at once, and what the kernel keeps while nothing is."""
    family, kind, protocol, _, _ = address
    small = socket.socket(family, kind, protocol)
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MODEL_READ_BYTES // 2)  # Linux doubles it
    return small


def guard_of(transport: asyncio.BaseTransport) -> Guard:
    """The guard of a connection of a `GuardedConnector`."""
    return cast("Guard", cast("asyncio.Transport", transport).get_protocol())


class Guard(asyncio.Protocol):
    """Stands between a transport and aiohttp's protocol, for as long as the connection is open.

    aiohttp keeps what comes after an answer, and takes it for the answer to the next request. So a
    connection is cut on which anything comes while it is idle, or after the end of an answer.
    Heads are bounded here, and interim ones (1xx) dropped: aiohttp would take them without end.
    """

    __slots__ = (
        "_answering", "_feed", "_feeding", "_handler", "_head", "_interim", "_is_new", "_last",
        "_on_unasked", "_released", "_transport", "came", "lost",
    )  # fmt: skip

    def __init__(
        self,
        handler: ResponseHandler,
        transport: asyncio.Transport,
        on_unasked: Callable[[], None],
    ) -> None:
        self.came: Callable[[], None] = _tell_nobody
        """Called when something of the answer has come, until the connection is released."""
        self.lost = False
        """Whether the connection has ended."""
        self._is_new = True
        self._handler = handler
        self._feed = handler.data_received
        self._transport = transport
        self._on_unasked = on_unasked
        self._head: bytearray | None = None  # what has come of an awaited head
        self._interim = 0
        self._answering = self._feeding = self._released = False
        self._last = b""  # what came last of an answer

    def begin(self, connection: aiohttp.connector.Connection) -> bool:
        """Expect an answer. Returns whether the connection can be used for a request."""
        if self._handler.should_close or self._answering or self._head is not None:
            return False
        # Something may have come of which the loop has not heard yet. A new connection over TLS may
        # have a ticket there.
        if not self._is_new and _is_readable(self._transport):
            return False
        self._is_new = False
        self._head = bytearray()
        self._interim = 0
        connection.add_callback(self._release)
        return True

    def data_received(self, data: bytes) -> None:
        """As of `asyncio.Protocol`, like all that follow."""
        if self._answering:
            self._pass_on(data)
        elif self._head is not None:
            self._take_head(self._head, data)
        else:
            self._transport.abort()
            self._on_unasked()

    def eof_received(self) -> bool | None:
        self._handler.eof_received()
        self.came()
        return None

    def connection_lost(self, error: Exception | None) -> None:
        came = self.came
        self.lost = True
        self._handler.connection_lost(error)
        came()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def _pass_on(self, data: bytes) -> None:
        came = self.came
        self._last = data
        self._feeding = True
        self._feed(data)
        self._feeding = False
        came()
        if self._released:
            if self._handler.should_close and not self._transport.is_closing():
                self._on_unasked()
            self._settle()

    def _take_head(self, head: bytearray, data: bytes) -> None:
        """Take more of the heads before a body. Only the last one is passed on."""
        head += data
        while True:
            end = _HEAD_END.search(head)
            if (end.end() if end is not None else len(head)) > _MOST_HEAD_BYTES:
                return self._refuse("a head without end")
            if end is None:
                return None
            if not head.startswith(b"HTTP/1."):
                return self._refuse("something that is not HTTP/1")
            status = head[9:12]
            if not status.startswith(b"1"):
                self._head = None
                self._answering = True
                return self._pass_on(bytes(head))
            self._interim += 1
            if status == b"101" or self._interim > _MOST_INTERIM:
                return self._refuse("interim answers without end, or another protocol")
            del head[: end.end()]

    def _refuse(self, what: str) -> None:
        self._head = None
        self._handler.set_exception(
            UpstreamUnreadable(
                f"the model's server sent {what}; nothing was generated", code="upstream_failed"
            )
        )
        self._transport.abort()

    def _release(self) -> None:
        """Nobody waits for more of the answer. aiohttp calls it in the middle of parsing."""
        self.came = _tell_nobody
        self._released = True
        if not self._feeding:
            self._settle()

    def _settle(self) -> None:
        """Cut the connection unless the answer's end was the last that came.

        A body in chunks has an empty line at its end. What comes after it has none, unless it is a
        whole message: that one aiohttp has then, and `begin` sees it, if it isn't seen here.
        """
        last, self._last = self._last, b""
        self._released = self._answering = False
        self._head = None
        at_end = last.endswith(b"\r\n\r\n") or (last != b"" and _LAST_CHUNK.endswith(last))
        if self._handler.should_close or not at_end:
            self._transport.abort()


def _tell_nobody() -> None:
    pass


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether bytes, or the end, wait in the socket."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
