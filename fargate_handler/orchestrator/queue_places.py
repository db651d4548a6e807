"""Tells those that wait for a model their places in the queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.stream_core.base.queue_place import QueuePlace, StartRate
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

# Each is a system call or more: a thousand at once held the event loop for 40 to 180 ms.
_AT_ONCE = 20


class QueuePlaces:
    """Tells places in rounds, a few of them in each slot of the delivery clock.

    Args:
        starts: how fast the queue moves.
        waits: whether a generation still waits.
    """

    def __init__(
        self, clock: DeliveryClock, starts: StartRate, waits: Callable[[Generation], bool]
    ) -> None:
        self._clock = clock
        self._starts = starts
        self._waits = waits
        self._untold: deque[tuple[int, Generation]] = deque()
        self._now = 0.0

    def tell(self, in_order: Iterable[Generation], now: float) -> None:
        """Begin a round, unless the last one isn't over.

        Args:
            in_order: those that wait.
            now: in seconds.
        """
        if not self._untold:
            self._untold.extend(enumerate(in_order, 1))
            self._now = now
            self._tell_some()

    def on_due(self, _slot: int) -> None:
        """Go on."""
        self._tell_some()

    def _tell_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._untold))):
            position, generation = self._untold.popleft()
            if self._waits(generation):
                held_for = generation.held_until - self._now
                backoff = generation.upstream.limiter.backoff
                closed_for = max(backoff.paused_for(self._now), held_for)
                expected = self._starts.expected_seconds(position, self._now, closed_for)
                generation.stream.publish_place(QueuePlace(position, expected))
        if self._untold:
            self._clock.put_after(self, 0.0)
