"""The readers of one response. Many are delivered to in groups, spread over the interval."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.bounds.shares import EIGHTH
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.delta_encoder import Encoder, SharedEncoder
from evenflow.stream_core.delivery.presence import Presence, PresenceListener, present_readers
from evenflow.stream_core.delivery.reader import Reader

MAX_DIRECT_READERS = 256
"""More readers than this are delivered to in groups. 256 deliveries take a fifth of a slot."""
# Readers of a group. A late clock can stop between two groups.
_GROUP = 32
_NO_ENCODERS: Mapping[Hashable, SharedEncoder[Any]] = {}


class ResponseReaders(dict[Reader, float]):
    """The readers of one response in the order in which they came, and when each came.

    More than `MAX_DIRECT_READERS` are delivered to in groups. Each group has a slot of its own, the
    same one in every interval, so that no delivery blocks the event loop for long.

    Args:
        max_readers: the most readers that `check_limit` lets in.
        monotonic: seconds.
    """

    __slots__ = (
        "_clock",
        "_delivered_at",
        "_encoders",
        "_max_readers",
        "_monotonic",
        "_on_unread",
        "grace_begins_at",
        "only",
        "presence",
    )

    def __init__(
        self, max_readers: int, clock: DeliveryClock, monotonic: Callable[[], float]
    ) -> None:
        super().__init__()
        self.only: Reader | None = None
        """The reader, where there is just one: most responses have one."""
        self.presence: Presence | None = None
        """Publishes the readers. None: there was no listener yet."""
        self.grace_begins_at: float | None = monotonic()
        """When the grace without a reader begins. None: there is a reader, or one is due.

        In seconds. It may be later than now, while a poll waits at another node.
        """
        self._max_readers = max_readers
        self._clock = clock
        self._monotonic = monotonic
        self._encoders = _NO_ENCODERS
        self._on_unread: Callable[[], None] | None = None
        # By group: when it was delivered to last. None where there were never many readers.
        self._delivered_at: list[float] | None = None

    # -- which readers there are -------------------------------------------------------------------

    def check_limit(self, *, shared: bool = False) -> None:
        """Check that one more reader may be added.

        Args:
            shared: whether it comes by a share. An eighth of the places is for other readers.

        Raises:
            RateLimited: the response has as many as allowed.
        """
        most = self._max_readers
        if len(self) >= most - (most // EIGHTH if shared else 0):
            raise RateLimited(
                "this response has as many readers as it may have; close one and ask again",
                code="response_readers",
                retry_after_ms=1000,
            )

    def add(self, reader: Reader) -> float:
        """Add a reader. Returns when that was, in seconds."""
        now = self[reader] = self._monotonic()
        self.only = reader if len(self) == 1 else None
        self.grace_begins_at = None
        if self.presence is not None:
            self.presence.changed()
        return now

    def remove(self, reader: Reader) -> None:
        """Remove a reader. `end_reading` follows when it was the last one."""
        del self[reader]
        self.only = next(iter(self)) if len(self) == 1 else None
        if self.presence is not None:
            self.presence.changed()

    def end_reading(self) -> None:
        """Begin the time without a reader: the last one has left."""
        self.clear()  # gives its memory back
        self.grace_begins_at = self._monotonic()
        if self._on_unread is not None:
            self._on_unread()

    def set_on_unread(self, callback: Callable[[], None] | None) -> None:
        """Set what is called when the last reader leaves. None: nothing."""
        self._on_unread = callback

    def begin_grace_at(self, moment: float | None) -> None:
        """Set `grace_begins_at`, for readers that this node doesn't see. None: one is due."""
        self.grace_begins_at = moment

    def encoder(self, key: Hashable, make: Callable[[], Encoder]) -> Encoder:
        """The encoder for one more reader. Readers with the same key share one.

        Args:
            key: of all encoders that write the same bytes.
            make: makes one.
        """
        if not self:
            return make()  # most responses have one reader: it needs no sharing
        if key not in self._encoders:
            self._encoders = {**self._encoders, key: SharedEncoder(make())}
        return cast("Encoder", self._encoders[key])  # it writes the same

    def listen(self, response_id: str, listener: PresenceListener) -> None:
        """Notify a listener of the readers, now and on each change."""
        if self.presence is None:
            self.presence = Presence(
                response_id, partial(present_readers, self), self._clock, self._monotonic
            )
        self.presence.listen(listener)

    def lose(self) -> None:
        """Notify readers and listeners that this copy has ended, and that another one goes on."""
        for reader in tuple(self):
            reader.on_lost()
        if self.presence is not None:
            self.presence.lose()

    # -- fan-out -----------------------------------------------------------------------------------

    def deliver_to_all(
        self, now: float, jitter: float | None, slots: int, expected: float | None
    ) -> None:
        """Deliver to all readers: to a few at once, to many in groups.

        Args:
            jitter: as of `Reader.deliver`.
            slots: of the clock, up to the next delivery.
            expected: seconds that should lie between this delivery and the one before. None: it
                has no due time.
        """
        if len(self) > MAX_DIRECT_READERS:
            self._deliver_in_groups(slots, expected)
            return
        for reader in tuple(self):  # a reader with a closed socket leaves
            reader.deliver(now, jitter)

    def _deliver_in_groups(self, slots: int, expected: float | None) -> None:
        """Deliver to all readers in groups, within `slots` slots from now."""
        readers, clock = tuple(self), self._clock
        groups = [readers[first : first + _GROUP] for first in range(0, len(readers), _GROUP)]
        before = self._delivered_at or []
        self._delivered_at = before[: len(groups)] + [0.0] * (len(groups) - len(before))
        for number, group in enumerate(groups):
            turn = _GroupTurn(self, group, number, expected)
            later = number * slots // len(groups)
            if later:
                clock.put(turn, clock.position + later)
            else:
                turn.on_due(clock.position)

    def deliver_to_group(
        self, group: Sequence[Reader], number: int, expected: float | None
    ) -> None:
        """Deliver to the readers of a group that have not left since."""
        now = self._monotonic()
        jitter = None
        if self._delivered_at is not None and number < len(self._delivered_at):
            before, self._delivered_at[number] = self._delivered_at[number], now
            if expected is not None and before:
                jitter = abs(now - before - expected)
        for reader in group:
            if reader in self:
                reader.deliver(now, jitter)


class _GroupTurn:
    """The slot of one group on the clock."""

    __slots__ = ("_expected", "_group", "_number", "_readers")

    def __init__(
        self,
        readers: ResponseReaders,
        group: Sequence[Reader],
        number: int,
        expected: float | None,
    ) -> None:
        self._readers = readers
        self._group = group
        self._number = number
        self._expected = expected

    def on_due(self, _slot: int) -> None:
        """Deliver to the group: its slot has come."""
        self._readers.deliver_to_group(self._group, self._number, self._expected)
