"""Presence: the readers of a response, published to listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from sys import maxsize
from typing import NamedTuple, Protocol

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.reader import Reader

MAX_NAMED_READERS = 50
"""The most readers that are named: the first ones to come. The others are counted."""
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
    """The clients among the readers of one copy, which were attached at these times."""
    clients = [(each, since) for each, since in readers.items() if each.user is not None]
    named = tuple(
        PresentReader(each.user or "", each.transport, since)
        for each, since in clients[:MAX_NAMED_READERS]
    )
    return Present(named, len(clients))


def merge_present(parts: Iterable[Present]) -> Present:
    """The readers of several copies."""
    readers, count = list[PresentReader](), 0
    for part in parts:
        readers += part.readers
        count += part.count
    readers.sort(key=lambda reader: reader.since)
    return Present(tuple(readers[:MAX_NAMED_READERS]), count)


class PresenceListener(Protocol):
    """Receives presence. Its methods must not wait or raise."""

    def present(self, response_id: str, present: Present) -> None:
        """`present` are the readers of the response now."""

    def presence_lost(self, response_id: str) -> None:
        """This copy of the response has ended: listen at another one."""


class Presence:
    """Publishes the readers of a response to listeners: at once, and then at most once a second.

    Args:
        now: returns the readers now.
        monotonic: seconds.
        most_listeners: the limit of listeners.
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
        # By listener: whether it is a reader of a share.
        self._listeners: dict[PresenceListener, bool] = {}
        self._published: Present | None = None
        self._published_at = 0.0
        self._waiting = False

    @property
    def has_listeners(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def listen(
        self, listener: PresenceListener, *, bounded: bool = True, shared: bool = False
    ) -> None:
        """Notify this listener of the readers, now and on each change. A second call repeats it.

        Args:
            bounded: whether it is rejected at the limit of listeners.
            shared: whether it is a reader of a share. These have an equal limit of their own.

        Raises:
            RateLimited: the limit of listeners is reached.
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
            self._published = now
        self._listeners[listener] = shared
        listener.present(self._response_id, now)

    def leave(self, listener: PresenceListener) -> None:
        """Remove a listener. A second call changes nothing."""
        self._listeners.pop(listener, None)

    def changed(self) -> None:
        """Schedule the publication of a change of the readers, with all changes until then."""
        if self._waiting or not self._listeners:
            return
        self._waiting = True
        wait = self._published_at + _PAUSE_SECONDS - self._monotonic()
        self._clock.put_after(self, max(0.0, wait))

    def lose(self) -> None:
        """Notify listeners that this copy has ended."""
        listeners, self._listeners = self._listeners, {}
        for listener in listeners:
            listener.presence_lost(self._response_id)

    def on_due(self, _slot: int) -> None:
        """Publish what has changed: the pause between two publications is over."""
        self._waiting = False
        now = self._now()
        if now == self._published:
            return
        self._published, self._published_at = now, self._monotonic()
        for listener in tuple(self._listeners):
            listener.present(self._response_id, now)
