"""How much memory requests take that bring their whole conversation: from their first byte to the end of their answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import Overloaded

_RETRY_AFTER_MS = 1_000
# Of what Python makes of JSON, beside its text: measured, lists and objects with one member are the worst.
_VALUE_BYTES, _OBJECT_BYTES = 80, 240


def memory_of(request: bytes | bytearray) -> int:
    """Bytes that a request's JSON takes when it is read: its text, and what holds that together."""
    return (
        len(request) + _OBJECT_BYTES * request.count(b"{") + _VALUE_BYTES * (request.count(b"[") + request.count(b","))
    )


class HeldRequests:
    """The requests of a node, in bytes.

    Args:
        most: so many are taken; a request more is refused, while those of a lost task are always taken up.
        store_in_memory: whether this process' memory also has what is on record of them.
    """

    def __init__(self, most: int, *, store_in_memory: bool) -> None:
        self._most = most
        self._store_in_memory = store_in_memory
        self._answered_here: dict[ResponseStream, int] = {}
        self.bytes = 0
        """What all of them take now."""

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A request that is read, until it is accepted or refused."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            self.bytes -= reading.bytes

    def begin(self, stream: ResponseStream, request: bytes) -> None:
        """A request is being answered."""
        on_record = len(request) if self._store_in_memory else 0
        self._answered_here[stream] = size = memory_of(request) + on_record
        self.bytes += size

    def end(self, stream: ResponseStream) -> None:
        """Its answer has ended, or another task gives it."""
        self.bytes -= self._answered_here.pop(stream, 0)

    def check(self, more: int) -> None:
        """Whether so many bytes more may be taken.

        Raises:
            Overloaded: they may not.
        """
        if self.bytes + more > self._most:
            raise Overloaded(
                "this node holds as many bytes of requests as it may; nothing was generated, ask again",
                code="node_memory",
                retry_after_ms=_RETRY_AFTER_MS,
            )


class Reading:
    """One request that is read. `bytes`: what it takes by now."""

    def __init__(self, all_of_them: HeldRequests) -> None:
        self._all = all_of_them
        self.bytes = 0

    def grow_to(self, size: int) -> None:
        """It takes so much now.

        Raises:
            Overloaded: the node has no room for it.
        """
        self._all.check(size - self.bytes)
        self._all.bytes += size - self.bytes
        self.bytes = size
