"""Accepts connections. The first head decides whether picows or aiohttp serves a connection."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterable
from enum import Enum, auto
from itertools import chain
from typing import Protocol, cast

from evenflow.fargate_handler.gateway.connections.accepted_connections import (
    AcceptedConnections,
    Cut,
)
from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer
from evenflow.fargate_handler.gateway.connections.handshake import LONGEST_HEAD
from evenflow.stream_core.base.errors import EvenflowError, Overloaded

# Bursts of thousands of connections wait here, instead of a second for another SYN.
_BACKLOG = 8192

# aiohttp rejects heads whose lines end without a carriage return, but it must get them.
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_ASKS_FOR_WEBSOCKET = re.compile(rb"\nupgrade:[^\n]*websocket", re.IGNORECASE)

# It is filled and emptied within one call of the loop, so one buffer serves all connections.
_BUFFER = bytearray(65_536)

HttpTaking = Callable[[asyncio.Transport, bytes, ClientTimer], None]
"""Takes a connection from its first bytes on, and the timer by which its head must be whole."""


class WebSocketTaking(Protocol):
    """Takes connections that begin with a WebSocket's handshake."""

    def take(self, transport: asyncio.Transport, received: bytes, /) -> bytes | None:
        """Take a connection from the bytes of its first head on.

        Returns:
            The answer that rejects it, or None.
        """

    def rejection(self, error: EvenflowError, /) -> bytes:
        """The answer that rejects a handshake with this error."""


class Listener:
    """Accepts connections.

    Args:
        websockets: takes connections that begin with a WebSocket's handshake.
        http: takes all others.
        accepted: has each connection until it is lost, and shares the loop among addresses.
        head_seconds: how long a first head may take.
    """

    def __init__(
        self,
        websockets: WebSocketTaking,
        http: HttpTaking,
        accepted: AcceptedConnections,
        head_seconds: float,
    ) -> None:
        self._websockets = websockets
        self._http = http
        self._accepted = accepted
        self._head_seconds = head_seconds
        self._servers: dict[int | None, list[asyncio.Server]] = {}
        self._undecided: set[HeadFirst] = set()

    async def start(self, sockets: Iterable[socket.socket], process: int | None = None) -> None:
        """Listen on these sockets, which are bound.

        Args:
            process: the number of another process that the sockets belong to. None: this one.
        """
        loop, servers = asyncio.get_running_loop(), self._servers.setdefault(process, [])
        for listening in sockets:
            servers.append(await loop.create_server(self._first, sock=listening, backlog=_BACKLOG))

    def stop(self, process: int) -> None:
        """Stop accepting from the sockets of another process, which serves again."""
        for server in self._servers.pop(process, ()):
            server.close()

    def stop_accepting(self) -> None:
        """Refuse new connections, and close those without a head. The others stay."""
        for server in chain(*self._servers.values()):
            server.close()
        for connection in tuple(self._undecided):
            connection.abort()

    def _first(self) -> HeadFirst:
        return HeadFirst(
            self._websockets,
            self._http,
            self._accepted,
            self._undecided,
            self._head_seconds,
        )


class _State(Enum):
    READING = auto()  # its head
    WAITING = auto()  # its handshake is here, and has no turn yet
    REJECTED = auto()


class HeadFirst(asyncio.BufferedProtocol):
    """Reads the first head of a connection, and hands the connection to picows or aiohttp.

    Then this object is freed. It is a buffered protocol, as that of picows: uvloop would keep a
    plain protocol's `data_received`, and so the object, while the WebSocket is open. aiohttp
    rejects a head that is too long or not HTTP.

    Args:
        undecided: has this connection until it is given away or lost.
    """

    __slots__ = (
        "_accepted",
        "_deadline",
        "_head_seconds",
        "_http",
        "_received",
        "_state",
        "_transport",
        "_undecided",
        "_websockets",
    )  # fmt: skip

    def __init__(
        self,
        websockets: WebSocketTaking,
        http: HttpTaking,
        accepted: AcceptedConnections,
        undecided: set[HeadFirst],
        head_seconds: float,
    ) -> None:
        self._websockets = websockets
        self._http = http
        self._accepted = accepted
        self._undecided = undecided
        self._head_seconds = head_seconds
        self._received = b""
        self._state = _State.READING
        self._transport: asyncio.Transport
        self._deadline: ClientTimer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection was accepted."""
        self._transport = cast("asyncio.Transport", transport)
        self._undecided.add(self)
        self._start_deadline()
        self._accepted.accept(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection ended before it was given away."""
        self._forget()
        self._accepted.remove(self._transport)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        """The buffer for the next bytes."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` bytes have come."""
        if self._state is _State.REJECTED:
            # A socket that is closed with unread bytes is reset, which may lose the answer. So the
            # client closes it, or the deadline ends it.
            return
        if self._state is _State.WAITING:
            # It is read, so that a client that leaves is noticed. Frames should come later.
            self._received += _BUFFER[:nbytes]
            if len(self._received) > 2 * LONGEST_HEAD:
                self._transport.pause_reading()
            return
        # RFC 9112, 2.2: a client may send empty lines first.
        self._received = received = (self._received + _BUFFER[:nbytes]).lstrip(b"\r\n")
        end = _END_OF_HEAD.search(received, 0, LONGEST_HEAD)
        if end is None and len(received) < LONGEST_HEAD and _may_be_http(received):
            return
        is_handshake = (
            end is not None
            and received.startswith(b"GET ")
            and _ASKS_FOR_WEBSOCKET.search(received, 0, end.start()) is not None
        )
        if not is_handshake:
            deadline, self._received = self._deadline, b""
            self._undecided.discard(self)
            self._http(self._transport, received, deadline)
            return
        # Its head arrived in time. Any further wait is the node's.
        self._deadline.stop()
        self._state = _State.WAITING
        peer = self._transport.get_extra_info("peername")
        try:
            self._accepted.turns.call(peer[0] if isinstance(peer, tuple) else "", self._upgrade)
        except Overloaded as error:
            self._reject(self._websockets.rejection(error))
        if self._state is _State.WAITING and self in self._undecided:
            self._accepted.serve(self._transport)  # its place is not another's while it waits

    def _upgrade(self) -> bool:
        if self not in self._undecided:
            return False  # it was lost meanwhile
        if not self._transport.is_reading():
            self._transport.resume_reading()
        answer = self._websockets.take(self._transport, self._received)
        if answer is None:
            self._forget()
        else:
            self._reject(answer)
        return True

    def _reject(self, answer: bytes) -> None:
        self._state, self._received = _State.REJECTED, b""
        self._accepted.wait_for_request(self._transport)
        self._start_deadline()
        self._transport.write(answer)
        self._transport.write_eof()

    def _start_deadline(self) -> None:
        self._deadline = ClientTimer(asyncio.get_running_loop(), self._head_seconds, self._late)

    def _late(self) -> None:
        if self._state is _State.REJECTED:
            self.abort()
        else:
            self._accepted.cut(self._transport, Cut.HEAD)

    def _forget(self) -> None:
        self._deadline.stop()
        self._undecided.discard(self)
        self._received = b""


def _may_be_http(received: bytes) -> bool:
    # TLS begins with another byte.
    return not received or received[:1].isalpha()
