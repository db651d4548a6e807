"""A cache of stored requests, so that a GET need not read and parse them anew."""

from __future__ import annotations

from collections import OrderedDict

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.bounds.memory_account import MemoryPart

CacheKey = tuple[str, Channel]
"""A response's id and its channel: a client can name the id of another's response in its own."""

_SHARE = 16
"""The cache may take a sixteenth of the memory for requests."""
_TURN_BYTES = 1_024
"""The memory of a turn without its text, with what a protocol repeats of it."""


class RequestCache:
    """Requests by their responses' ids and channels. The least recently used is evicted first.

    Args:
        memory: where their bytes are counted.
    """

    def __init__(self, memory: MemoryPart) -> None:
        self._memory = memory
        self._max_bytes = memory.most // _SHARE
        self._bytes = 0
        self._entries: OrderedDict[CacheKey, tuple[WholeRequest, int]] = OrderedDict()

    def get(self, key: CacheKey) -> tuple[WholeRequest, int] | None:
        """The request and its memory in bytes. None: it is not cached."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: CacheKey, request: WholeRequest, text_bytes: int) -> None:
        """Cache a request, unless it is too large or memory is short.

        Args:
            text_bytes: the memory of its text.
        """
        size = text_bytes + _TURN_BYTES * len(request.turns)
        if size > self._max_bytes or key in self._entries or self._memory.lacks_room(size):
            return
        self._entries[key] = request, size
        self._add(size)
        while self._bytes > self._max_bytes:
            _, (_, size) = self._entries.popitem(last=False)
            self._add(-size)

    def _add(self, size: int) -> None:
        self._bytes += size
        self._memory.bytes += size
