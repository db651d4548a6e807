"""Divides a store's room, so that no caller blocks the others."""

from __future__ import annotations

_PART = 4


def has_room(most: int, used: int, size: int, *kept: int) -> bool:
    """Whether a store has room for `size` bytes more of a caller.

    These are dynamic thresholds (Choudhury and Hahne, 1998). A tenant may keep four times
    the free bytes, its address four times the bytes that the tenant may still keep, and so on. The
    limits fall as the store fills, and the largest caller reaches its limit first. One caller alone
    stops at three quarters. A small caller finds room, however much the others keep.

    Args:
        most: bytes that the store may keep.
        used: bytes that it keeps.
        kept: bytes that it keeps for the tenant, then for the address, and so on.
    """
    room = most - used - size
    rooms = [room]
    for before in kept:
        room = _PART * room - before - size
        rooms.append(room)
    return min(rooms) >= 0
