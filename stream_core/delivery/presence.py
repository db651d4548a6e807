"""Presence: who reads a response, told to those who asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from sys import maxsize
from typing import NamedTuple, Protocol

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.paced_cursor import Reader

MOST_NAMED = 50
"""So many readers are named, those who came first. The others are counted."""
_PAUSE_SECONDS = 1.0


class PresentReader(NamedTuple):
    """A client that reads. `user` may be empty. `since` is in seconds on the monotonic clock."""

    user: str
    transport: Transport
    since: float


@dataclass(frozen=True, slots=True)
class Present:
    """The clients that read a response: all counted, the first ones named."""

    readers: tuple[PresentReader, ...]
    count: int


def present_readers(readers: Mapping[Reader, float]) -> Present:
    """The clients among the readers of one copy, which have come at these times."""
    clients = [(each, since) for each, since in readers.items() if each.user is not None]
    named = tuple(
        PresentReader(each.user or "", each.transport, since)
        for each, since in clients[:MOST_NAMED]
    )
    return Present(named, len(clients))


def together(parts: Iterable[Present]) -> Present:
    """The readers of several copies."""
    readers, count = list[PresentReader](), 0
    for part in parts:
        readers += part.readers
        count += part.count
    readers.sort(key=lambda reader: reader.since)
    return Present(tuple(readers[:MOST_NAMED]), count)


class Listener(Protocol):
    """Who is told of presence. Its methods must not wait or raise."""

    def present(self, response_id: str, present: Present) -> None:
        """These read the response now."""

    def presence_lost(self, response_id: str) -> None:
        """This copy of the response has ended: ask at another one."""


class Presence:
    """Tells listeners who reads a response: at once, and then at most once a second.

    Args:
        now: who reads it now.
        monotonic: seconds.
        most_listeners: how many may listen.
    """

    def __init__(
        self,
        response_id: str,
        now: Callable[[], Present],
        clock: DeliveryClock,
        monotonic: Callable[[], float],
        most_listeners: int = maxsize,
    ) -> None:
        self._response_id = response_id
        self._now = now
        self._clock = clock
        self._monotonic = monotonic
        self._most = most_listeners
        # Each with whether it comes by a share.
        self._listeners: dict[Listener, bool] = {}
        self._told: Present | None = None
        self._told_at = 0.0
        self._waiting = False

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def listen(self, listener: Listener, *, bounded: bool = True, shared: bool = False) -> None:
        """Tell this listener who reads, now and on each change. A second call tells it again.

        Args:
            bounded: whether it is refused if as many listen as may.
            shared: whether it comes by a share. Shares have as many places as all others.

        Raises:
            RateLimited: as many listen as may.
        """
        full = sum(each is shared for each in self._listeners.values()) >= self._most
        if bounded and full and listener not in self._listeners:
            raise RateLimited(
                "as many clients as may are told who reads this response; ask again later",
                code="presence_listeners",
                retry_after_ms=1000,
            )
        now = self._now()
        if not self._listeners:
            self._told = now
        self._listeners[listener] = shared
        listener.present(self._response_id, now)

    def leave(self, listener: Listener) -> None:
        """Tell this listener nothing more. A second call changes nothing."""
        self._listeners.pop(listener, None)

    def changed(self) -> None:
        """A reader has come or gone: tell it soon, together with what else changes until then."""
        if self._waiting or not self._listeners:
            return
        self._waiting = True
        wait = self._told_at + _PAUSE_SECONDS - self._monotonic()
        self._clock.put_after(self, max(0.0, wait))

    def lost(self) -> None:
        """This copy has ended."""
        listeners, self._listeners = self._listeners, {}
        for listener in listeners:
            listener.presence_lost(self._response_id)

    def on_due(self, _slot: int) -> None:
        """It is time to tell what has changed."""
        self._waiting = False
        now = self._now()
        if now == self._told:
            return
        self._told, self._told_at = now, self._monotonic()
        for listener in tuple(self._listeners):
            listener.present(self._response_id, now)
