"""The load of a node in one figure, by which the service is scaled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from evenflow.stream_core.base.limits import Limits

_SECONDS = 60.0


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
    """The highest use of a node's limits in percent, as the mean of the last minute.

    A sample counts for the time since the one before: a node that starves takes few of them.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._sampled_at = now
        self._samples: deque[_Sample] = deque()
        self.worst = ""
        """The field of `NodeUse` with the highest use at the last sample, without its unit."""

    @property
    def percent(self) -> float:
        """From 0 to 100. 0 before the first sample."""
        seconds = sum(sample.seconds for sample in self._samples)
        weighted = sum(sample.percent * sample.seconds for sample in self._samples)
        return weighted / seconds if seconds else 0.0

    def sample(self, use: NodeUse, now: float) -> None:
        """Take a sample. Called once a second, or as often as the node gets to it."""
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
        percent = 100 * min(1.0, shares[self.worst])
        self._samples.append(_Sample(now, now - self._sampled_at, percent))
        self._sampled_at = now
        while self._samples[0].at <= now - _SECONDS and len(self._samples) > 1:
            self._samples.popleft()


class _Sample(NamedTuple):
    """The use at a moment, and the seconds for which it stands."""

    at: float
    seconds: float
    percent: float
