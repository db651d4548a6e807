"""All open connections of this node's clients."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, Overloaded, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.bounds.shares import Shares
from evenflow.stream_core.protocols.evenflow.messages import ServerMessage

_FREE_PART = 8


class Watched(Protocol):
    """A connection or stream with a reader that lags or pauses."""

    def look_at_readers(self, now: float) -> None:
        """Notify readers that lag, and close those that lag too far."""


class Blocked(Protocol):
    """A connection or stream whose socket takes no more bytes."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that it has not sent yet."""

    def close_for_memory(self) -> None:
        """Close it: the node has no memory for its unsent bytes. Its client may resume."""


class Movable(Protocol):
    """A connection or stream whose client can move to another node."""

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        """Accept no more messages, and send the client the time at which to reconnect."""


class Granted(Protocol):
    """A connection or stream that a credential has opened."""

    @property
    def grant(self) -> AccessGrant | None:
        """The credential of its client. None: another node reads."""

    def revoke(self, error: EvenflowError) -> None:
        """End it, since its credential is no longer valid."""


class OpenStream(Movable, Granted, Protocol):
    """A stream of events that a client reads."""


class OpenConnection(Watched, Blocked, Movable, Granted, Protocol):
    """A client's connection over any transport, as the node sees it."""

    @property
    def counted_as(self) -> Channel | None:
        """The session whose connection limit it counts for. None: none."""

    @property
    def watches(self) -> bool:
        """Whether it only watches its session, and does not count for its connection limit."""

    @property
    def grant(self) -> AccessGrant:
        """The credential of its client."""

    @property
    def sender(self) -> tuple[str, str]:
        """The tenant and the address of the client."""

    @property
    def reading(self) -> bool:
        """Whether a response is being delivered to it."""

    def notify(self, message: ServerMessage) -> None:
        """Send what happens in its session, or close where its credential has ended."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection. A second call changes nothing."""


class ConnectionRegistry:
    """Open connections by session, and their limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._of_channel: dict[Channel | None, dict[OpenConnection, None]] = {}
        self._shares: Shares[tuple[str, str]] = Shares(limits.connections_per_node)
        self.slow: set[Watched] = set()
        """Connections and streams with a lagging or paused reader. Checked each second."""
        self.streams: set[OpenStream] = set()
        """The event streams that clients read, in every protocol."""
        self.blocked: set[Blocked] = set()
        """Connections and streams whose socket takes no more bytes."""

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[OpenConnection]:
        for connections in tuple(self._of_channel.values()):
            yield from tuple(connections)

    @property
    def full(self) -> bool:
        """Whether the node has as many connections as allowed."""
        return self._shares.full

    def check(self, channel: Channel | None, sender: tuple[str, str], replaces: bool) -> None:
        """Check that one more connection may be opened.

        Args:
            channel: the session whose connection limit it counts for. None: none.
            sender: the tenant and the address of the client.

        Raises:
            Overloaded: the node is full.
            RateLimited: the session has as many as allowed, and they are not to be replaced.
        """
        if not self._shares.has_room(sender):
            raise Overloaded(
                "this node has as many connections as it may have; connect again later",
                code="node_full",
                retry_after_ms=2000,
            )
        if (
            channel is not None
            and not replaces
            and len(self.own_of(channel)) >= self._limits.connections_per_session
        ):
            raise RateLimited(
                "this session has as many connections as it may have; close one, or connect with "
                "?replace=1",
                code="session_connections",
                retry_after_ms=1000,
            )

    def of(self, channel: Channel | None) -> Iterable[OpenConnection]:
        """The connections of a session, and those that watch it. None: those without a session."""
        return tuple(self._of_channel.get(channel, ()))

    def own_of(self, channel: Channel) -> Collection[OpenConnection]:
        """The connections that count for the limit of a session."""
        return [each for each in self._of_channel.get(channel, ()) if not each.watches]

    def close_all(self, code: int, reason: str) -> None:
        """Close every connection."""
        for connection in self:
            connection.close(code, reason)

    def add(self, connection: OpenConnection) -> None:
        """Add an open connection."""
        self._of_channel.setdefault(connection.counted_as, {})[connection] = None
        self._shares.add(connection.sender)

    @property
    def unsent_bytes(self) -> int:
        """The bytes that sockets have not taken yet."""
        return sum(each.unsent_bytes for each in self.blocked)

    def limit_unsent_bytes(self, memory: MemoryPart) -> int:
        """Count the unsent bytes. Over the limit, close connections, the most unsent bytes first.

        An eighth of the limit is kept free for other connections.

        Args:
            memory: counts unsent bytes, and has their limit.

        Returns:
            The number of closed connections.
        """
        unsent = {each: each.unsent_bytes for each in self.blocked}
        memory.bytes = sum(unsent.values())
        closed, free = 0, memory.most // _FREE_PART
        largest_first = sorted(unsent, key=unsent.__getitem__, reverse=True)
        while memory.lacks_room(free):
            each = largest_first[closed]
            memory.bytes -= unsent[each]
            self.blocked.discard(each)
            each.close_for_memory()
            closed += 1
        return closed

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that is gone. A second call changes nothing."""
        connections = self._of_channel.get(connection.counted_as, {})
        if connection not in connections:
            return
        del connections[connection]
        if not connections:
            del self._of_channel[connection.counted_as]
        self._shares.remove(connection.sender)
        self.slow.discard(connection)
        self.blocked.discard(connection)
