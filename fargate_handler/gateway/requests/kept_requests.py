"""Stored requests that were read lately: not each GET of one reads and parses it anew."""

from __future__ import annotations

from collections import OrderedDict

from evenflow.fargate_handler.orchestrator.whole_request import WholeRequest
from evenflow.stream_core.policy.memory_account import MemoryPart

_PART = 16
"""They may take this part of the memory for requests."""
_TURN_BYTES = 1_024
"""A turn without its text, with what a protocol tells of it again."""


class KeptRequests:
    """Requests by their responses' ids. The one used longest ago goes first.

    Args:
        memory: where their bytes are counted.
    """

    def __init__(self, memory: MemoryPart) -> None:
        self._memory = memory
        self._most = memory.most // _PART
        self._bytes = 0
        self._kept: OrderedDict[str, tuple[WholeRequest, int]] = OrderedDict()

    def get(self, response_id: str) -> tuple[WholeRequest, int] | None:
        """The request, if it is kept, and the bytes that it takes."""
        if response_id not in self._kept:
            return None
        self._kept.move_to_end(response_id)
        return self._kept[response_id]

    def keep(self, response_id: str, request: WholeRequest, text_bytes: int) -> None:
        """Keep a request that was read, unless it takes too much.

        Args:
            text_bytes: what its text takes.
        """
        size = text_bytes + _TURN_BYTES * len(request.turns)
        if size > self._most or response_id in self._kept or self._memory.lacks_room(size):
            return
        self._kept[response_id] = request, size
        self._add(size)
        while self._bytes > self._most:
            _, (_, size) = self._kept.popitem(last=False)
            self._add(-size)

    def _add(self, size: int) -> None:
        self._bytes += size
        self._memory.bytes += size
