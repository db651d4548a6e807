"""All open WebSocket connections of this node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stream_core.channel import Channel
from stream_core.errors import Overloaded, RateLimited
from stream_core.limits import Limits

if TYPE_CHECKING:
    from fargate_handler.gateway.websocket_connection import WebSocketConnection


class ConnectionRegistry:
    """Connections by session, counted against the node's limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._of_channel: dict[Channel, list[WebSocketConnection]] = {}
        self._count = 0
        self.slow: set[WebSocketConnection] = set()
        """Connections with a reader that is behind or pauses: the ones worth looking at each second."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[WebSocketConnection]:
        for connections in tuple(self._of_channel.values()):
            yield from tuple(connections)

    @property
    def full(self) -> bool:
        """Whether the node has as many connections as it may."""
        return self._count >= self._limits.connections_per_node

    def check(self, channel: Channel, replaces: bool) -> None:
        """Whether one more connection of this session may come in.

        Raises:
            Overloaded: the node is full.
            RateLimited: the session has as many as it may, and doesn't ask to replace them.
        """
        if self.full:
            raise Overloaded(
                "this node has as many connections as it may; connect again later",
                code="node_full",
                retry_after_ms=2000,
            )
        if not replaces and len(self._of_channel.get(channel, ())) >= self._limits.connections_per_session:
            raise RateLimited(
                "this session has as many connections as it may; close one, or connect with ?replace=1",
                code="session_connections",
                retry_after_ms=1000,
            )

    def of(self, channel: Channel) -> Iterable[WebSocketConnection]:
        """The connections of a session."""
        return tuple(self._of_channel.get(channel, ()))

    def add(self, connection: WebSocketConnection) -> None:
        """A connection has opened."""
        self._of_channel.setdefault(connection.channel, []).append(connection)
        self._count += 1

    def remove(self, connection: WebSocketConnection) -> None:
        """A connection is gone; removing it twice is the same."""
        connections = self._of_channel.get(connection.channel, [])
        if connection not in connections:
            return
        connections.remove(connection)
        if not connections:
            del self._of_channel[connection.channel]
        self._count -= 1
        self.slow.discard(connection)
