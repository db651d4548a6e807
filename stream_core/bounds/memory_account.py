"""Counts the bytes that a node keeps in memory, and checks whether there is room for more."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.base.limits import Limits

_RETRY_AFTER_MS = 1_000


class MemoryPart:
    """The bytes of one part. An owner adds its bytes, and subtracts them when it is dropped.

    Args:
        most: the part's limit.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        """The bytes that are kept now."""

    def lacks_room(self, more: int = 0) -> bool:
        """Whether it would be over its limit with `more` bytes."""
        return self.bytes + more > self.most


class MemoryAccount:
    """The memory that a node uses for its clients. Each part has a limit. The node's is their sum.

    A part that is over its limit drops its oldest or largest entries. Only requests can't be
    dropped: they are rejected before they are kept.

    Args:
        on_rejected: called with each rejection.
    """

    def __init__(self, limits: Limits, on_rejected: Callable[[], None] = lambda: None) -> None:
        self.requests = MemoryPart(limits.requests_held_bytes)
        """Messages and requests that are being accepted, queued or answered."""
        self.conversations = MemoryPart(limits.conversations_held_bytes)
        """Histories of conversations, and the ids of accepted messages."""
        self.running = MemoryPart(limits.running_held_bytes)
        """The logs of responses that have not ended."""
        self.ended = MemoryPart(limits.responses_held_bytes)
        """Ended responses."""
        self.unsent = MemoryPart(limits.unsent_held_bytes)
        """Frames and events that sockets have not taken."""
        self._on_rejected = on_rejected

    @property
    def bytes(self) -> int:
        """The bytes that are kept now."""
        return sum(part.bytes for part in self._parts)

    def check(self, more: int) -> None:
        """Check that there is room for a request of `more` bytes.

        Raises:
            Overloaded: there isn't.
        """
        most = sum(part.most for part in self._parts)
        if self.requests.lacks_room(more) or self.bytes + more > most:
            self.reject()

    def reject(self) -> None:
        """Reject a request for want of memory.

        Raises:
            Overloaded: always.
        """
        self._on_rejected()
        raise Overloaded(
            "this node keeps as much in its memory as it may; nothing was accepted, ask again",
            code="node_memory",
            retry_after_ms=_RETRY_AFTER_MS,
        )

    @property
    def _parts(self) -> tuple[MemoryPart, ...]:
        return self.requests, self.conversations, self.running, self.ended, self.unsent
