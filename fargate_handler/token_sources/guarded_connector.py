"""The connections to a model's server, each with a guard before aiohttp's parser."""

from __future__ import annotations

import asyncio
import re
import select
import socket
from collections.abc import Callable
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from evenflow.fargate_handler.token_sources.plain_chunks import PlainChunks, has_chunks
from evenflow.stream_core.base.errors import UpstreamUnreadable
from evenflow.stream_core.bounds.memory_bound import MODEL_READ_BYTES, READ_AHEAD_BYTES

_MOST_HEAD_BYTES = 65_536
_MOST_INTERIM = 16
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LAST_CHUNK = b"0\r\n\r\n"


class GuardedConnector(aiohttp.TCPConnector):
    """A pool of connections, each with a `Guard`.

    Args:
        keepalive_timeout: seconds for which a connection waits for the next request.
        on_unsolicited: called when a server sent data without a request.
    """

    def __init__(self, keepalive_timeout: float, on_unsolicited: Callable[[], None]) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout, socket_factory=_small_socket)
        self._on_unsolicited = on_unsolicited

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> aiohttp.connector.Connection:
        """A connection without unsolicited bytes, which aiohttp would treat as the answer."""
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
            handler.transport.set_protocol(Guard(handler, handler.transport, self._on_unsolicited))
        return handler


def _small_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with a small receive buffer: it bounds each read, and what the kernel buffers."""
    family, kind, protocol, _, _ = address
    small = socket.socket(family, kind, protocol)
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MODEL_READ_BYTES // 2)  # Linux doubles it
    return small


def guard_of(transport: asyncio.BaseTransport) -> Guard:
    """The guard of a connection of a `GuardedConnector`."""
    return cast("Guard", cast("asyncio.Transport", transport).get_protocol())


class Guard(asyncio.Protocol):
    """The protocol between a transport and aiohttp's own, while the connection is open.

    aiohttp buffers bytes after an answer, and treats them as the answer to the next request. So the
    guard cuts a connection on which bytes arrive while it is idle, or after the end of an answer.
    It bounds heads and drops interim ones (1xx), since aiohttp would accept them without end.

    A body in plain chunks is read past aiohttp. From the first other byte on aiohttp parses it.
    """

    __slots__ = (
        "_answering",
        "_feed",
        "_feeding",
        "_handler",
        "_head",
        "_interim",
        "_is_new",
        "_last",
        "_on_unsolicited",
        "_released",
        "_transport",
        "chunks",
        "is_lost",
        "on_data",
    )  # fmt: skip

    def __init__(
        self,
        handler: ResponseHandler,
        transport: asyncio.Transport,
        on_unsolicited: Callable[[], None],
    ) -> None:
        self.on_data: Callable[[], None] = _do_nothing
        """Called when bytes of the answer have arrived, until the connection is released."""
        self.is_lost = False
        """Whether the connection has ended."""
        self.chunks: PlainChunks | None = None
        """The body of the answer, unless aiohttp parses it."""
        self._is_new = True
        self._handler = handler
        self._feed = handler.data_received
        self._transport = transport
        self._on_unsolicited = on_unsolicited
        self._head: bytearray | None = None  # the received part of an awaited head
        self._interim = 0
        self._answering = self._feeding = self._released = False
        self._last = b""  # the last bytes of an answer

    def begin(self, connection: aiohttp.connector.Connection) -> bool:
        """Expect an answer. Returns whether the connection can be used for a request."""
        if self._handler.should_close or self._answering or self._head is not None:
            return False
        # The socket may have bytes that the loop has not read yet. A new connection over TLS may
        # have a session ticket there.
        if not self._is_new and _is_readable(self._transport):
            return False
        self._is_new = False
        self._head = bytearray()
        self._interim = 0
        connection.add_callback(self._release)
        return True

    def data_received(self, data: bytes) -> None:
        """As of `asyncio.Protocol`, like all that follow."""
        chunks = self.chunks
        if chunks is not None:
            on_data = self.on_data
            chunks.feed(data)
            if len(chunks.received) > READ_AHEAD_BYTES:
                self.hand_over()  # aiohttp stops reading while too much waits
            on_data()
        elif self._answering:
            self._pass_on(data)
        elif self._head is not None:
            self._take_head(self._head, data)
        else:
            self._transport.abort()
            self._on_unsolicited()

    def eof_received(self) -> bool | None:
        self._handler.eof_received()
        self.on_data()
        return None

    def connection_lost(self, error: Exception | None) -> None:
        on_data = self.on_data
        self.is_lost = True
        self._handler.connection_lost(error)
        on_data()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def hand_over(self) -> None:
        """Have aiohttp parse the rest of the body, unless the end of a chunk must come first."""
        chunks = self.chunks
        if chunks is None or self.is_lost or (rest := chunks.rest()) is None:
            return
        self.chunks = None
        if rest:
            self._pass_on(rest, _do_nothing)

    def _pass_on(self, data: bytes, on_data: Callable[[], None] | None = None) -> None:
        on_data = on_data or self.on_data
        self._last = data
        self._feeding = True
        self._feed(data)
        self._feeding = False
        on_data()
        if self._released:
            if self._handler.should_close and not self._transport.is_closing():
                self._on_unsolicited()
            self._settle()

    def _take_head(self, head: bytearray, data: bytes) -> None:
        """Take more of the heads before a body. Only the last one is passed on."""
        head += data
        while True:
            end = _HEAD_END.search(head)
            if (end.end() if end is not None else len(head)) > _MOST_HEAD_BYTES:
                return self._reject("a head without end")
            if end is None:
                return None
            if not head.startswith(b"HTTP/1."):
                return self._reject("something that is not HTTP/1")
            status = head[9:12]
            if not status.startswith(b"1"):
                self._head = None
                self._answering = True
                return self._begin_body(bytes(head), end.end())
            self._interim += 1
            if status == b"101" or self._interim > _MOST_INTERIM:
                return self._reject("interim answers without end, or another protocol")
            del head[: end.end()]

    def _begin_body(self, received: bytes, begin: int) -> None:
        if not has_chunks(received[:begin]):
            self._pass_on(received)
            return
        self.chunks = PlainChunks()
        self._pass_on(received[:begin])
        if begin < len(received):
            self.data_received(received[begin:])

    def _reject(self, what: str) -> None:
        self._head = None
        self._handler.set_exception(
            UpstreamUnreadable(
                f"the model's server sent {what}; nothing was generated", code="upstream_failed"
            )
        )
        self._transport.abort()

    def _release(self) -> None:
        """Release the connection from its answer. aiohttp calls this in the middle of parsing."""
        self.on_data = _do_nothing
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
        self._head = self.chunks = None
        at_end = last.endswith(b"\r\n\r\n") or (last != b"" and _LAST_CHUNK.endswith(last))
        if self._handler.should_close or not at_end:
            self._transport.abort()


def _do_nothing() -> None:
    pass


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether bytes, or the end, wait in the socket."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
