"""When each client leaves a draining node, and when it comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

# Networks and clients bunch evenly spaced calls. With this headroom short windows keep the rate.
_HEADROOM = 1.2


def departure_spacing(clients: int, per_second: float, most_seconds: float) -> float:
    """The seconds between the departures of two clients, slightly more than `per_second` needs.

    It is less where all the clients would take longer than `most_seconds`.
    """
    return min(_HEADROOM / per_second, most_seconds / max(1, clients))


def departure_times(clients: int, per_second: float, most_seconds: float) -> list[float]:
    """A time for each client, evenly spaced, in seconds from now."""
    spacing = departure_spacing(clients, per_second, most_seconds)
    return [spacing * place for place in range(clients)]


# A client that has not left by itself this long after its departure time is disconnected.
_PATIENCE_SECONDS = 2.0

Client = TypeVar("Client")


class Departures(Generic[Client]):
    """The departure times of a draining node's clients, in seconds on one monotonic clock.

    Args:
        clients: in the order in which they leave.
        begun: now.
        per_second: how many leave in a second. More do if not all would fit.
        first_until: when every client has had its first time.
        until: the latest time.
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
        times = departure_times(len(clients), per_second, window)
        moments = (begun + time for time in times)
        self._pending = deque(zip(moments, clients, strict=True))
        self._notified: deque[tuple[float, Client]] = deque()
        self._put_back: deque[tuple[float, Client]] = deque()
        self._spacing = departure_spacing(len(clients), per_second, window)
        self._free = begun + len(clients) * self._spacing + _PATIENCE_SECONDS
        self._until = until

    def next_departures(self, most: int | None = None) -> Iterator[tuple[float, Client]]:
        """The next clients to notify, at most `most`, in the order of their departures."""
        pending = len(self._pending)
        for _ in range(pending if most is None else min(most, pending)):
            departs_at, client = self._pending.popleft()
            self._notified.append((departs_at + _PATIENCE_SECONDS, client))
            yield departs_at, client

    def overdue(self, now: float) -> list[Client]:
        """Remove and return the clients whose time is in the past."""
        return [
            client for waiting in (self._notified, self._put_back) for client in _due(waiting, now)
        ]

    def put_back(self, client: Client, now: float) -> bool:
        """Give a client another time, after all others. False if there is no time for one."""
        departs_at = max(self._free, now + self._spacing)
        if departs_at > self._until:
            return False
        self._free = departs_at + self._spacing
        self._put_back.append((departs_at, client))
        return True


def _due(waiting: deque[tuple[float, Client]], now: float) -> Iterator[Client]:
    while waiting and waiting[0][0] <= now:
        yield waiting.popleft()[1]
