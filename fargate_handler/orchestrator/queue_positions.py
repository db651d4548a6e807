"""Publishes the queue positions of generations that wait for a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.stream_core.base.queue_place import QueuePlace, StartRate
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

# Each takes a system call or more: a thousand at once block the event loop for 40 to 180 ms.
_AT_ONCE = 20


class QueuePositions:
    """Publishes positions in rounds, a few in each slot of the delivery clock.

    Args:
        starts: how fast the queue moves.
        is_waiting: whether a generation still waits.
    """

    def __init__(
        self, clock: DeliveryClock, starts: StartRate, is_waiting: Callable[[Generation], bool]
    ) -> None:
        self._clock = clock
        self._starts = starts
        self._is_waiting = is_waiting
        self._pending: deque[tuple[int, Generation]] = deque()
        self._now = 0.0

    def publish(self, in_order: Iterable[Generation], now: float) -> None:
        """Begin a round, unless the last one is not over.

        Args:
            in_order: the waiting generations.
            now: in seconds.
        """
        if not self._pending:
            self._pending.extend(enumerate(in_order, 1))
            self._now = now
            self._publish_some()

    def on_due(self, _slot: int) -> None:
        """Continue the round."""
        self._publish_some()

    def _publish_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._pending))):
            position, generation = self._pending.popleft()
            if self._is_waiting(generation):
                throttled_for = generation.not_before - self._now
                backoff = generation.upstream.limiter.backoff
                closed_for = max(backoff.paused_for(self._now), throttled_for)
                expected = self._starts.expected_seconds(position, self._now, closed_for)
                generation.stream.publish_place(QueuePlace(position, expected))
        if self._pending:
            self._clock.put_after(self, 0.0)
