"""The sockets of all clients, and which of them are cut when there are too many."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum

from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from evenflow.stream_core.bounds.connection_places import ConnectionPlaces
from evenflow.stream_core.metrics.instruments import LabelledCounter

_logger = logging.getLogger(__name__)


class Cut(StrEnum):
    """Why a connection was cut, or its request rejected."""

    HEAD = "head"  # no whole head in time
    BODY = "body"  # its body came too slowly
    ROOM = "room"  # it was idle longest when another one needed the place
    FULL = "full"  # no place: all other connections serve requests


class AcceptedConnections:
    """All connections that were accepted, of every protocol.

    Args:
        cut: counts what was cut or refused, by `Cut`.

    Attributes:
        turns: shares the event loop among the addresses that send requests.
    """

    def __init__(self, places: ConnectionPlaces[asyncio.Transport], cut: LabelledCounter) -> None:
        self._places = places
        self._cut = cut
        self._for_want_of_room = 0
        self.turns = AddressTurns()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def full(self) -> bool:
        """Whether requests are rejected, since there are too many connections."""
        return self._places.full

    def accept(self, transport: asyncio.Transport) -> None:
        """Add a connection. Where there are too many, one is cut."""
        victim = self._places.accept(transport)
        if victim is not None:
            self.cut(victim, Cut.FULL if victim is transport else Cut.ROOM)

    def serve(self, transport: asyncio.Transport) -> bool:
        """Mark a connection as serving a request. Returns whether it has a place."""
        return self._places.serve(transport)

    def refuses(self, transport: asyncio.Transport | None) -> bool:
        """Whether the request of this connection is rejected for want of a place. Counts it."""
        if not self._places.full or transport is None or self._places.serves(transport):
            return False
        self._count(Cut.FULL)
        return True

    def wait_for_body(self, transport: asyncio.Transport, sender: str) -> None:
        """Mark a connection as sending a body. Where too many do, one is cut."""
        victim = self._places.wait_for_body(transport, sender)
        if victim is not None:
            self.cut(victim, Cut.ROOM)

    def wait_for_request(self, transport: asyncio.Transport) -> None:
        """Mark a connection as idle: its request was answered."""
        self._places.wait_for_request(transport)

    def cut_oldest_body(self) -> bool:
        """Cut the oldest connection that sends a body, of the address with most of them.

        Returns:
            Whether there was one.
        """
        victim = self._places.oldest_body()
        if victim is None:
            return False
        self.cut(victim, Cut.ROOM)
        return True

    def cut(self, transport: asyncio.Transport, why: Cut) -> None:
        """Disconnect a client at once."""
        self._count(why)
        self._places.remove(transport)
        transport.abort()

    def count_slow_body(self) -> None:
        """Count a body that came too slowly. Its client gets an error."""
        self._count(Cut.BODY)

    def remove(self, transport: asyncio.Transport) -> None:
        """Remove a connection that is closed."""
        self._places.remove(transport)

    def log(self) -> None:
        """Log how many were cut or rejected for want of room since the last call, if any."""
        if self._for_want_of_room:
            _logger.warning(
                "%d connections were cut or refused for want of room, the longest idle first: "
                "raise the limit of open files (ulimit -n), EVENFLOW_REQUESTS_PER_NODE, or, where "
                "they were sending bodies, EVENFLOW_BODIES_PER_NODE",
                self._for_want_of_room,
            )  # fmt: skip
            self._for_want_of_room = 0

    def _count(self, why: Cut) -> None:
        self._cut.count(why)
        self._for_want_of_room += why in (Cut.ROOM, Cut.FULL)
