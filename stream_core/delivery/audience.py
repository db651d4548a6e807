"""The readers of one response. A large audience is called in groups, spread over the interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.paced_cursor import Reader
from evenflow.stream_core.delivery.presence import Presence

AT_ONCE = 256
"""More readers than that are called by `Audience.call_many`. So many take a fifth of a slot."""
# Of more readers, so many together, that a late clock can stop between two groups.
_GROUP = 32


class Audience(dict[Reader, float]):
    """The readers of one response, in the order in which they came, with when that was.

    A response with a few readers calls them itself. `call_many` is for more than that: each group
    has a slot of its own, the same one in every interval, so that no delivery holds the loop.

    Args:
        monotonic: seconds.
    """

    __slots__ = ("_called_at", "_clock", "_monotonic", "presence")

    def __init__(self, clock: DeliveryClock, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.presence: Presence | None = None
        """Tells who they are. None: nobody has asked."""
        self._clock = clock
        self._monotonic = monotonic
        # By group: when it was called last. None for an audience that was never large.
        self._called_at: list[float] | None = None

    def call_many(self, slots: int, expected: float | None) -> None:
        """Call all readers, in groups, within so many slots from now.

        Args:
            slots: of the clock, up to the next delivery.
            expected: seconds that should lie between this delivery and the one before. None: it
                has no due time.
        """
        readers, clock = tuple(self), self._clock
        groups = [readers[first : first + _GROUP] for first in range(0, len(readers), _GROUP)]
        called_at = self._called_at or []
        self._called_at = called_at[: len(groups)] + [0.0] * (len(groups) - len(called_at))
        for number, group in enumerate(groups):
            turn = _Turn(self, group, number, expected)
            later = number * slots // len(groups)
            if later:
                clock.put(turn, clock.position + later)
            else:
                turn.on_due(clock.position)

    def call(self, group: Sequence[Reader], number: int, expected: float | None) -> None:
        """Call those of a group that have not left since."""
        now = self._monotonic()
        jitter = None
        if self._called_at is not None and number < len(self._called_at):
            before, self._called_at[number] = self._called_at[number], now
            if expected is not None and before:
                jitter = abs(now - before - expected)
        for reader in group:
            if reader in self:
                reader.deliver(now, jitter)


class _Turn:
    """One group's place on the clock."""

    __slots__ = ("_audience", "_expected", "_group", "_number")

    def __init__(
        self, audience: Audience, group: Sequence[Reader], number: int, expected: float | None
    ) -> None:
        self._audience = audience
        self._group = group
        self._number = number
        self._expected = expected

    def on_due(self, _slot: int) -> None:
        """The slot has come."""
        self._audience.call(self._group, self._number, self._expected)
