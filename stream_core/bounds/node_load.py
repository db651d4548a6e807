"""The load of a node in one figure, by which the service is scaled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from evenflow.stream_core.base.limits import Limits

_SAMPLES = 60


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The use of a node at one moment.

    Args:
        connections: open WebSockets.
        event_streams: open event streams and polls that wait.
        answers: answers being generated.
        queue: messages that wait for their generation.
        cpu_share: the share of the time in which the event loop was busy, from 0 to 1.
        lateness_seconds: the lateness of the delivery clock.
    """

    connections: int
    event_streams: int
    answers: int
    queue: int
    cpu_share: float
    lateness_seconds: float


class LoadFigure:
    """The highest use of a node's limits in percent, as the mean of the last minute."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._samples: deque[float] = deque(maxlen=_SAMPLES)
        self.worst = ""
        """The field of `NodeUse` with the highest use at the last sample, without its unit."""

    @property
    def percent(self) -> float:
        """From 0 to 100. 0 before the first sample."""
        return sum(self._samples) / max(1, len(self._samples))

    def sample(self, use: NodeUse) -> None:
        """Take a sample. Called once a second."""
        limits = self._limits
        shares = {
            "connections": use.connections / limits.connections_per_node,
            "event_streams": use.event_streams / limits.requests_per_node,
            "answers": use.answers / limits.generations_per_node,
            "queue": use.queue / limits.queue_depth if limits.queue_depth else 0.0,
            "cpu": use.cpu_share,
            # A whole interval late: then nothing is delivered evenly.
            "lateness": use.lateness_seconds * 1000 / limits.batch_window_ms,
        }
        self.worst = max(shares, key=lambda part: shares[part])
        self._samples.append(100 * min(1.0, shares[self.worst]))
