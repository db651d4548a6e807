"""Counts the memory of requests that bring their conversation, from first byte to end of answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import Overloaded

_RETRY_AFTER_MS = 1_000
# What Python's objects for JSON take beside its text. Measured: the worst are those with one
# member.
_VALUE_BYTES, _OBJECT_BYTES = 80, 240


def memory_of(request: bytes | bytearray) -> int:
    """Bytes that a request takes when its JSON is read: its text, and the objects around it."""
    return (
        len(request)
        + _OBJECT_BYTES * request.count(b"{")
        + _VALUE_BYTES * (request.count(b"[") + request.count(b","))
    )


class HeldRequests:
    """Counts the bytes of a node's requests.

    Args:
        most: further requests are refused beyond this, except those of lost tasks.
        store_in_memory: whether the store is in this process' memory, too.
    """

    def __init__(self, most: int, *, store_in_memory: bool) -> None:
        self._most = most
        self._store_in_memory = store_in_memory
        self._answered_here: dict[ResponseStream, int] = {}
        self.bytes = 0
        """What all requests take now."""

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Count a request while it is read, until it is accepted or refused."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            self.bytes -= reading.bytes

    def begin(self, stream: ResponseStream, request: bytes) -> None:
        """Count a request that is being answered."""
        on_record = len(request) if self._store_in_memory else 0
        self._answered_here[stream] = size = memory_of(request) + on_record
        self.bytes += size

    def end(self, stream: ResponseStream) -> None:
        """Stop counting a request: its answer has ended, or another task has it."""
        self.bytes -= self._answered_here.pop(stream, 0)

    def check(self, more: int) -> None:
        """Check that there is room for `more` bytes.

        Raises:
            Overloaded: there isn't.
        """
        if self.bytes + more > self._most:
            raise Overloaded(
                "this node has as many bytes of requests as it may have; nothing was generated, "
                "ask again",
                code="node_memory",
                retry_after_ms=_RETRY_AFTER_MS,
            )


class Reading:
    """One request while it is read. `bytes` is what it takes now."""

    def __init__(self, all_of_them: HeldRequests) -> None:
        self._all = all_of_them
        self.bytes = 0

    def grow_to(self, size: int) -> None:
        """Note that it takes `size` bytes now.

        Raises:
            Overloaded: the node has no room for them.
        """
        self._all.check(size - self.bytes)
        self._all.bytes += size - self.bytes
        self.bytes = size
