"""Counts the memory of messages and requests, from their first byte to the end of their answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evenflow.stream_core.base.agents import NO_TERMS, MessageTerms
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.bounds.memory_bound import GENERATION_BYTES
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.session.conversation import Turn

# Python's objects for JSON, in addition to its text. Measured: objects with one member take most.
_VALUE_BYTES, _OBJECT_BYTES = 80, 240


def memory_of(request: bytes | bytearray) -> int:
    """Bytes of a request whose JSON is parsed: its text, and the objects around it."""
    return (
        len(request)
        + _OBJECT_BYTES * request.count(b"{")
        + _VALUE_BYTES * (request.count(b"[") + request.count(b","))
    )


def memory_of_text(text: str) -> int:
    """Bytes of a text. With one emoji in it, each character takes four."""
    return sys.getsizeof(text)


def memory_of_terms(terms: MessageTerms) -> int:
    """The bytes of the conversation and the tools in a message's terms."""
    return memory_of(terms.to_text().encode()) if terms.turns or terms.tools else 0


class RequestMemory:
    """Counts the bytes of a node's messages and requests.

    Args:
        memory: has their limit. Messages of lost nodes are taken over beyond it.
        store_in_memory: whether the store is in this process' memory, too.
    """

    def __init__(self, memory: MemoryAccount, *, store_in_memory: bool) -> None:
        self._memory = memory
        self._store_in_memory = store_in_memory
        self._sizes: dict[ResponseStream, int] = {}

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Count a request while it is read, until it is accepted or rejected."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            reading.release()

    def begin(
        self,
        stream: ResponseStream,
        turns: Sequence[Turn],
        terms: MessageTerms = NO_TERMS,
        request_bytes: int = 0,
        text_bytes: int = 0,
    ) -> None:
        """Count a message that is being answered, with the turns for the model.

        Args:
            request_bytes: the memory of a request that brings its conversation.
            text_bytes: the size of its text, which a store in memory keeps too.
        """
        size = request_bytes + sum(memory_of_text(turn.text) for turn in turns)
        if self._store_in_memory:
            size += text_bytes
        size += GENERATION_BYTES + memory_of_terms(terms)
        self._sizes[stream] = size
        self._memory.requests.bytes += size

    def end(self, stream: ResponseStream) -> None:
        """Stop counting a message: its answer has ended, or another node has it."""
        self._memory.requests.bytes -= self._sizes.pop(stream, 0)

    def grow(self, more: int) -> None:
        """Count `more` bytes of a request that is read.

        Raises:
            Overloaded: there is no room for them.
        """
        self._memory.check(more)
        self._memory.requests.bytes += more

    def shrink(self, less: int) -> None:
        """Subtract `less` bytes."""
        self._memory.requests.bytes -= less


class Reading:
    """The memory of one request while it is read."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.bytes = 0
        """The bytes that it takes now."""

    def grow_to(self, size: int) -> None:
        """Grow its count to `size` bytes.

        Raises:
            Overloaded: the node has no room for them.
        """
        self._memory.grow(size - self.bytes)
        self.bytes = size

    def shrink_to(self, size: int) -> None:
        """Shrink its count to `size` bytes."""
        self._memory.shrink(self.bytes - size)
        self.bytes = size

    def release(self) -> None:
        """Stop counting it."""
        self.shrink_to(0)
