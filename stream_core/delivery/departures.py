"""When each client leaves a draining node, and when it comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

# Networks and clients bunch evenly spaced calls. With this headroom short windows keep the rate.
_HEADROOM = 1.2


def slot_spacing(clients: int, per_second: float, most_seconds: float) -> float:
    """The seconds between the slots of two clients, slightly more than `per_second` needs.

    It is less where all the clients would take longer than `most_seconds`.
    """
    return min(_HEADROOM / per_second, most_seconds / max(1, clients))


def reconnect_slots(clients: int, per_second: float, most_seconds: float) -> list[float]:
    """One slot for each client, evenly spaced, in seconds from now."""
    spacing = slot_spacing(clients, per_second, most_seconds)
    return [spacing * place for place in range(clients)]


# A client that has not left by itself this long after its slot is disconnected.
_PATIENCE_SECONDS = 2.0

Client = TypeVar("Client")


class Departures(Generic[Client]):
    """The slots of a draining node's clients. All times are seconds on one monotonic clock.

    Args:
        clients: in the order in which they leave.
        begun: now.
        per_second: how many leave in a second. More do if not all would fit.
        first_until: when every client has had its first slot.
        until: the latest slot.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        begun: float,
        per_second: float,
        first_until: float,
        until: float,
    ) -> None:
        window = first_until - begun
        slots = reconnect_slots(len(clients), per_second, window)
        moments = (begun + slot for slot in slots)
        self._pending = deque(zip(moments, clients, strict=True))
        self._notified: deque[tuple[float, Client]] = deque()
        self._put_back: deque[tuple[float, Client]] = deque()
        self._spacing = slot_spacing(len(clients), per_second, window)
        self._free = begun + len(clients) * self._spacing + _PATIENCE_SECONDS
        self._until = until

    def next_departures(self, most: int | None = None) -> Iterator[tuple[float, Client]]:
        """The next clients to notify of their slot, at most `most`, in the order of their slots."""
        pending = len(self._pending)
        for _ in range(pending if most is None else min(most, pending)):
            slot, client = self._pending.popleft()
            self._notified.append((slot + _PATIENCE_SECONDS, client))
            yield slot, client

    def overdue(self, now: float) -> list[Client]:
        """Remove and return the clients with a slot in the past."""
        return [
            client for waiting in (self._notified, self._put_back) for client in _due(waiting, now)
        ]

    def put_back(self, client: Client, now: float) -> bool:
        """Give a client another slot, after all others. False if there is no time for one."""
        slot = max(self._free, now + self._spacing)
        if slot > self._until:
            return False
        self._free = slot + self._spacing
        self._put_back.append((slot, client))
        return True


def _due(waiting: deque[tuple[float, Client]], now: float) -> Iterator[Client]:
    while waiting and waiting[0][0] <= now:
        yield waiting.popleft()[1]
