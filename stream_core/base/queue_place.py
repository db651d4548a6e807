"""The position of a message in the queue for the model, and the expected wait."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

# The seconds over which the queue's pace is measured. The last two starts always count.
_WINDOW_SECONDS = 10.0


class QueuePlace(NamedTuple):
    """A place in the queue: 1 is the next. `expected_seconds` is None if it is unknown."""

    position: int
    expected_seconds: float | None


BEGUN = QueuePlace(0, None)
"""The place that other nodes receive for a response that has left the queue."""


class StartRate:
    """The pace at which answers begin while others wait."""

    def __init__(self) -> None:
        self._starts: deque[float] = deque(maxlen=1_000)

    def note(self, now: float, *, waited: bool) -> None:
        """Note that an answer begins.

        Args:
            waited: whether it waited for a slot. Otherwise slots were free, and the time since the
                previous start is no pace.
        """
        if not waited:
            self._starts.clear()
        self._starts.append(now)

    def expected_seconds(self, position: int, now: float, at_least: float = 0.0) -> float | None:
        """Whole seconds until the answer at this position begins. None: unknown.

        Args:
            at_least: the seconds in which nothing can begin.
        """
        starts = self._starts
        while len(starts) > 2 and now - starts[0] > _WINDOW_SECONDS:
            starts.popleft()
        if len(starts) < 2:
            return float(round(at_least)) if at_least else None
        pause = (starts[-1] - starts[0]) / (len(starts) - 1)
        seconds = position * pause - (now - starts[-1])
        return float(round(max(at_least, seconds, 0.0)))
