"""Chooses the connection to close when a node has too many: the one idle longest."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

SPARE_CONNECTIONS = 64
"""Connections beyond those that are served: to read a credential, for rejections and `/health`."""

Connection = TypeVar("Connection", bound=Hashable)


def most_served(open_files: int, reserved: int) -> int:
    """The number of connections that a process may serve with `open_files` descriptors.

    `reserved` descriptors are for the store, models and files, but at most a quarter of all.
    """
    return max(1, open_files - min(reserved, open_files // 4) - SPARE_CONNECTIONS)


class ConnectionPlaces(Generic[Connection]):
    """All accepted connections. Each is served, or waits for its client.

    Args:
        most: the limit of connections that are served at once.
        most_bodies: the limit of connections that send a body. Each has a request, which takes most
            of a connection's memory.
    """

    def __init__(self, most: int, most_bodies: int) -> None:
        self._most = most
        self._most_bodies = most_bodies
        self._served: set[Connection] = set()
        # Each in the order in which they began to wait.
        self._idle: dict[Connection, None] = {}
        self._unfinished: dict[Connection, str | None] = {}  # the value: the sender of a body
        self._bodies: dict[str, dict[Connection, None]] = {}  # by sender
        self._body_count = 0

    def __len__(self) -> int:
        return len(self._served) + len(self._idle) + len(self._unfinished)

    @property
    def full(self) -> bool:
        """Whether the limit of served connections is reached."""
        return len(self._served) >= self._most

    def serves(self, connection: Connection) -> bool:
        """Whether a connection is served now."""
        return connection in self._served

    def accept(self, connection: Connection) -> Connection | None:
        """Add an accepted connection, which has sent no head yet.

        Returns:
            The connection to close for it: the one idle longest, otherwise the one whose request is
            incomplete for longest. That may be this one.
        """
        self._unfinished[connection] = None
        if len(self) <= self._most + SPARE_CONNECTIONS:
            return None
        closed = next(iter(self._idle or self._unfinished))
        self.remove(closed)
        return closed

    def serve(self, connection: Connection) -> bool:
        """Serve a connection with a request. Returns whether there is room."""
        if connection in self._served:
            return True
        if self.full:
            return False
        if self._known(connection):
            self.remove(connection)
            self._served.add(connection)
        return True

    def wait_for_body(self, connection: Connection, sender: str) -> Connection | None:
        """Let a connection with a head wait for its body.

        Returns:
            The connection to close for it, as of `oldest_body`.
        """
        if not self._known(connection):
            return None
        self.remove(connection)
        self._unfinished[connection] = sender
        self._bodies.setdefault(sender, {})[connection] = None
        self._body_count += 1
        if self._body_count <= self._most_bodies:
            return None
        closed = self.oldest_body()
        if closed is not None:
            self.remove(closed)
        return closed

    def wait_for_request(self, connection: Connection) -> None:
        """Let a connection with an answered request wait for the next one."""
        if self._known(connection):
            self.remove(connection)
            self._idle[connection] = None

    def oldest_body(self) -> Connection | None:
        """The oldest connection of the sender with the most unfinished bodies."""
        if not self._bodies:
            return None
        most = max(self._bodies.values(), key=len)
        return next(iter(most))

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection. A second call changes nothing."""
        self._served.discard(connection)
        self._idle.pop(connection, None)
        sender = self._unfinished.pop(connection, None)
        if sender is not None:
            self._body_count -= 1
            del self._bodies[sender][connection]
            if not self._bodies[sender]:
                del self._bodies[sender]

    def _known(self, connection: Connection) -> bool:
        return (
            connection in self._served or connection in self._idle or connection in self._unfinished
        )
