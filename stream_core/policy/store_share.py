"""How a store's room is shared, so that no sender keeps the others out."""

from __future__ import annotations

_PART = 4


def has_room(most: int, used: int, size: int, *kept: int) -> bool:
    """Whether a store has room for `size` bytes more of a sender.

    Then its tenant may have four times as much as is free, its address four times as much as the
    tenant may still take, and so on. The bound falls as the store fills, and the sender with most
    reaches it first. One sender alone stops at three quarters. A sender with little finds room,
    however many others have much. (Switches share their buffers among queues by such dynamic
    thresholds: Choudhury and Hahne, 1998.)

    Args:
        most: bytes that the store may keep.
        used: bytes that it keeps.
        kept: those that it keeps for the tenant, of these for the address, and so on.
    """
    room = most - used - size
    rooms = [room]
    for before in kept:
        room = _PART * room - before - size
        rooms.append(room)
    return min(rooms) >= 0
