"""Implementations of the stores, side by side: each call is made to all of them, and all must
answer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from evenflow.stream_core.stores.memory_store import MemoryResponseStore, MemorySessionStore
from evenflow.stream_core.stores.response_store import ResponseHead, ResponseStore, StoredEntries
from evenflow.stream_core.stores.session_store import SessionStore

T = TypeVar("T")
Calls = Coroutine[Any, Any, T]


class Implementation(Protocol):
    """Empty stores, which tasks share."""

    @property
    def sessions(self) -> SessionStore:
        """The ledger."""

    def responses_of_a_task(self) -> ResponseStore:
        """The responses, for a task that has done nothing yet."""

    def run(self, call: Calls[T]) -> T:
        """Wait for a call."""


class InMemory:
    """The stores in memory."""

    def __init__(self) -> None:
        self._responses = MemoryResponseStore()
        self.sessions: SessionStore = MemorySessionStore(self._responses)

    def responses_of_a_task(self) -> ResponseStore:
        """See there."""
        return self._responses

    def run(self, call: Calls[T]) -> T:
        """See there. Nothing waits for anything."""
        try:
            call.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        raise AssertionError("it waited")


class Stores:
    """The stores of all implementations, as one task sees them."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self._responses = [(each.run, each.responses_of_a_task()) for each in implementations]
        self._sessions = [(each.run, each.sessions) for each in implementations]

    def responses(self, call: Callable[[ResponseStore], Calls[T]]) -> T:
        """What all of them answer, or raise."""
        return _alike([_outcome(run, call(store)) for run, store in self._responses])

    def sessions(self, call: Callable[[SessionStore], Calls[T]]) -> T:
        """What all of them answer, or raise."""
        return _alike([_outcome(run, call(store)) for run, store in self._sessions])


def _outcome(run: Callable[[Calls[T]], T], call: Calls[T]) -> T | Exception:
    try:
        return run(call)
    except Exception as error:
        return error


def _alike(outcomes: list[T | Exception]) -> T:
    answers = [_comparable(outcome) for outcome in outcomes]
    assert all(answer == answers[0] for answer in answers), answers
    first = outcomes[0]
    if isinstance(first, Exception):
        raise first
    return first


def _comparable(answer: object) -> object:
    """An answer without what implementations may choose: the order of lists, the wording of
    errors, fractions of expiry.
    """
    match answer:
        case Exception():
            return type(answer)
        case StoredEntries():
            return replace(answer, entries=tuple(answer.entries), head=_comparable(answer.head))  # type: ignore[arg-type]
        case ResponseHead():
            return replace(answer, expires_at=int(answer.expires_at))
        case [*things]:
            return set(things)
    return answer
