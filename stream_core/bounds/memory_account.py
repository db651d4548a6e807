"""What a node keeps in memory now, in bytes, and whether there is room for more."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.base.limits import Limits

_RETRY_AFTER_MS = 1_000


class MemoryPart:
    """One part of what is kept. Who keeps something adds its bytes, and takes them off again.

    Args:
        most: the part's limit.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        """What is kept now."""

    def lacks_room(self, more: int = 0) -> bool:
        """Whether it would be over its limit with `more` bytes."""
        return self.bytes + more > self.most


class MemoryAccount:
    """All that a node keeps for its clients. Each part has a limit, the node has their sum.

    What is over in a part goes, the oldest or the largest first. Only requests can't go: they are
    rejected before they are kept.

    Args:
        on_refused: called with each rejection.
    """

    def __init__(self, limits: Limits, on_refused: Callable[[], None] = lambda: None) -> None:
        self.requests = MemoryPart(limits.requests_held_bytes)
        """Messages and requests that are accepted, wait, or are answered."""
        self.conversations = MemoryPart(limits.conversations_held_bytes)
        """What models were told before, and which messages were accepted."""
        self.running = MemoryPart(limits.running_held_bytes)
        """The logs of responses that have not ended."""
        self.ended = MemoryPart(limits.responses_held_bytes)
        """Ended responses."""
        self.unsent = MemoryPart(limits.unsent_held_bytes)
        """Frames and events that sockets have not taken."""
        self._on_refused = on_refused

    @property
    def bytes(self) -> int:
        """What is kept now."""
        return sum(part.bytes for part in self._parts)

    def check(self, more: int) -> None:
        """Check that there is room for a request of `more` bytes.

        Raises:
            Overloaded: there isn't.
        """
        most = sum(part.most for part in self._parts)
        if self.requests.lacks_room(more) or self.bytes + more > most:
            self.refuse()

    def refuse(self) -> None:
        """Reject what there is no room for.

        Raises:
            Overloaded: always.
        """
        self._on_refused()
        raise Overloaded(
            "this node keeps as much in its memory as it may; nothing was accepted, ask again",
            code="node_memory",
            retry_after_ms=_RETRY_AFTER_MS,
        )

    @property
    def _parts(self) -> tuple[MemoryPart, ...]:
        return self.requests, self.conversations, self.running, self.ended, self.unsent
