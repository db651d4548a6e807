"""How much of a store's room a sender may take, so that nobody keeps all others out."""

from __future__ import annotations

_PART = 4


def room_for(most: int, used: int, of_tenant: int, of_sender: int) -> int:
    """Bytes that one more message of a sender may take. Less than 0: it has too much already.

    A tenant may have four times as much as is free, and a sender four times as much as its tenant
    may still take. So the bound of who has most falls first, long before the store is full. One
    sender alone stops at three quarters. Who has little finds room, however many others have much:
    switches share their buffers among queues like this (Choudhury and Hahne, 1998).

    Args:
        most: bytes that the store may keep.
        used: bytes that it keeps.
        of_tenant, of_sender: those that it keeps for the tenant, and of these for the sender.
    """
    free = most - used
    for_tenant = _PART * free - of_tenant
    return min(free, for_tenant, _PART * for_tenant - of_sender)
