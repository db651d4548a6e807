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


def memory_of_text(text: str) -> int:
    """Bytes that a text takes. One emoji in it makes each character four."""
    return sys.getsizeof(text)


def memory_of_terms(terms: MessageTerms) -> int:
    """The bytes of the conversation and the tools in a message's terms."""
    return memory_of(terms.to_text().encode()) if terms.turns or terms.tools else 0


class RequestMemory:
    """Counts the bytes of a node's messages and requests.

    Args:
        memory: has their limit. Those of lost tasks are taken over beyond it.
        store_in_memory: whether the store is in this process' memory, too.
    """

    def __init__(self, memory: MemoryAccount, *, store_in_memory: bool) -> None:
        self._memory = memory
        self._store_in_memory = store_in_memory
        self._answered_here: dict[ResponseStream, int] = {}

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Count a request while it is read, until it is accepted or refused."""
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
        """Count a message that is being answered, with the turns that the model is given.

        Args:
            request_bytes: the memory of a request that brings its conversation.
            text_bytes: the size of its text, which a store in memory keeps too.
        """
        size = request_bytes + sum(memory_of_text(turn.text) for turn in turns)
        if self._store_in_memory:
            size += text_bytes
        size += GENERATION_BYTES + memory_of_terms(terms)
        self._answered_here[stream] = size
        self._memory.requests.bytes += size

    def end(self, stream: ResponseStream) -> None:
        """Stop counting a message: its answer has ended, or another task has it."""
        self._memory.requests.bytes -= self._answered_here.pop(stream, 0)

    def grow(self, more: int) -> None:
        """Count `more` bytes of what is being read.

        Raises:
            Overloaded: there is no room for them.
        """
        self._memory.check(more)
        self._memory.requests.bytes += more

    def shrink(self, less: int) -> None:
        """Subtract `less` bytes."""
        self._memory.requests.bytes -= less


class Reading:
    """One request while it is read. `bytes` is what it takes now, until it is released."""

    def __init__(self, all_of_them: RequestMemory) -> None:
        self._all = all_of_them
        self.bytes = 0

    def grow_to(self, size: int) -> None:
        """Note that it takes `size` bytes now.

        Raises:
            Overloaded: the node has no room for them.
        """
        self._all.grow(size - self.bytes)
        self.bytes = size

    def shrink_to(self, size: int) -> None:
        """Note that it takes only `size` bytes now, whatever room the node has."""
        self._all.shrink(self.bytes - size)
        self.bytes = size

    def release(self) -> None:
        """Count its bytes no longer: it holds no memory any more."""
        self.shrink_to(0)
