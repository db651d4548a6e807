"""Stored requests that were read lately: not each GET of one reads and parses it anew."""

from __future__ import annotations

from collections import OrderedDict

from evenflow.fargate_handler.orchestrator.whole_request import WholeRequest
from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.memory_account import MemoryPart

Name = tuple[str, Channel]
"""A response's id and its channel: anybody can name the id of others in a channel of theirs."""

_PART = 16
"""They may take this part of the memory for requests."""
_TURN_BYTES = 1_024
"""A turn without its text, with what a protocol tells of it again."""


class KeptRequests:
    """Requests by their responses' ids and channels. The one used longest ago goes first.

    Args:
        memory: where their bytes are counted.
    """

    def __init__(self, memory: MemoryPart) -> None:
        self._memory = memory
        self._most = memory.most // _PART
        self._bytes = 0
        self._kept: OrderedDict[Name, tuple[WholeRequest, int]] = OrderedDict()

    def get(self, name: Name) -> tuple[WholeRequest, int] | None:
        """The request, if it is kept, and the bytes that it takes."""
        if name not in self._kept:
            return None
        self._kept.move_to_end(name)
        return self._kept[name]

    def keep(self, name: Name, request: WholeRequest, text_bytes: int) -> None:
        """Keep a request that was read, unless it takes too much.

        Args:
            text_bytes: what its text takes.
        """
        size = text_bytes + _TURN_BYTES * len(request.turns)
        if size > self._most or name in self._kept or self._memory.lacks_room(size):
            return
        self._kept[name] = request, size
        self._add(size)
        while self._bytes > self._most:
            _, (_, size) = self._kept.popitem(last=False)
            self._add(-size)

    def _add(self, size: int) -> None:
        self._bytes += size
        self._memory.bytes += size
