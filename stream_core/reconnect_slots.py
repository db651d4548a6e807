"""When the clients of a leaving task come back elsewhere: one by one, so that they storm nobody."""

from __future__ import annotations

# Networks and clients bunch what is evenly spaced; with this room the rate holds in short windows too.
_ROOM = 1.2


def slot_spacing(clients: int, per_second: float, most_seconds: float) -> float:
    """The seconds between two of so many clients: a little more than the rate asks, or less where all would take longer
    than `most_seconds`.
    """
    return min(_ROOM / per_second, most_seconds / max(1, clients))


def reconnect_slots(clients: int, per_second: float, most_seconds: float) -> list[float]:
    """A moment for each of so many clients, in seconds from now, evenly spaced."""
    spacing = slot_spacing(clients, per_second, most_seconds)
    return [spacing * place for place in range(clients)]
