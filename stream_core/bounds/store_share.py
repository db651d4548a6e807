"""How a store's room is shared, so that no sender keeps the others out."""

from __future__ import annotations

_PART = 4


def has_room(most: int, used: int, size: int, *kept: int) -> bool:
    """Whether a store has room for `size` bytes more of a sender.

    A tenant may have four times as much as is free. Its address may have four times as much as the
    tenant may still take, and so on. The bounds fall as the store fills, and the sender with most
    reaches its bound first. One sender alone stops at three quarters. A sender with little finds
    room, however full others make the store. (Dynamic thresholds: Choudhury and Hahne, 1998.)

    Args:
        most: bytes that the store may keep.
        used: bytes that it keeps.
        kept: bytes that it keeps for the tenant, of these for the address, and so on.
    """
    room = most - used - size
    rooms = [room]
    for before in kept:
        room = _PART * room - before - size
        rooms.append(room)
    return min(rooms) >= 0
