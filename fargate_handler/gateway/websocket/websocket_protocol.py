"""picows' protocol, with a bounded read for each turn of the loop, and its log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from picows.picows import WSProtocol  # type: ignore[attr-defined]

from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.websocket.websocket_transport import WebSocketTransport
from evenflow.stream_core.metrics.instruments import Counter

_logger = logging.getLogger(__name__)

_OF_CLIENTS = "WS parser error"


class ParserLog(logging.LoggerAdapter[logging.Logger]):
    """picows' logger. An invalid frame of a client is counted, and not logged as an error.

    An adapter, since picows makes a child of a real logger for each connection, which takes half a
    kilobyte.

    Args:
        errors: counts invalid frames.
    """

    def __init__(self, errors: Counter) -> None:
        super().__init__(logging.getLogger("picows.server"))
        self._errors = errors

    def error(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log an error. An error of a client has level info."""
        if not str(msg).startswith(_OF_CLIENTS):
            super().error(msg, *args, **kwargs)
            return
        self._errors.value += 1
        _logger.info("a client sent what is no frame, and is disconnected: %s", *args)


# The smallest frames of a client have six bytes. picows parses all that it is given at once.
READ_BYTES = 4_096


class WebSocketProtocol(WSProtocol):  # type: ignore[misc]
    """Reads a WebSocket until its listener's `stopped` is set.

    Without this libuv would read 32 times in a turn of the loop, each time all that picows' buffer
    has room for.
    """

    __slots__ = ("_room", "accepted")

    accepted: AcceptedConnections

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.accepted.remove(self.transport.underlying_transport)
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        window: memoryview = super().get_buffer(sizehint)[:READ_BYTES]
        self._room = len(window)
        return window

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` bytes have come. Where there may be more, they come in the loop's next turn."""
        super().buffer_updated(nbytes)
        if isinstance(self.listener, WebSocketTransport):
            self._note_arrival(self.listener, nbytes)
        # picows calls its listener only once the socket is closed, which may take long.
        if self.transport.is_close_frame_sent and isinstance(self.listener, WebSocketTransport):
            self.listener.client.malformed(self.transport.close_handshake.sent.code)
        if nbytes == self._room:
            self.transport.underlying_transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _note_arrival(self, connection: WebSocketTransport, nbytes: int) -> None:
        """Report the size of a large frame, since picows' buffer for it only grows."""
        connection.arrived += nbytes
        if connection.arrived > READ_BYTES:
            connection.client.arriving(connection.arrived)

    def _read_on(self) -> None:
        if self.listener is None or not self.listener.stopped:
            self.transport.underlying_transport.resume_reading()
