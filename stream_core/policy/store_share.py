"""How much of a store's room a sender may take, so that nobody keeps all others out."""

from __future__ import annotations

_PART = 4


def has_room(most: int, used: int, size: int, *kept: int) -> bool:
    """Whether a store has room for `size` bytes more of a sender.

    A tenant may have four times as much as is free then, an address four times as much as its
    tenant may still take, and so on. So the bound of who has most falls first, long before the
    store is full. One sender alone stops at three quarters. Who has little finds room, however
    many others have much: switches share their buffers among queues like this (Choudhury and
    Hahne, 1998).

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
