"""When the clients of a leaving task come back elsewhere: one by one, so that they storm nobody."""

from __future__ import annotations

# Networks and clients bunch what is evenly spaced; with this room the rate holds in short windows too.
_ROOM = 1.2


def reconnect_slots(clients: int, per_second: float, most_seconds: float) -> list[float]:
    """A moment for each of so many clients, in seconds from now: evenly spaced, a little below the rate, or closer where
    that would take longer than `most_seconds`.
    """
    window = min(clients / per_second * _ROOM, most_seconds)
    return [window * place / clients for place in range(clients)]
