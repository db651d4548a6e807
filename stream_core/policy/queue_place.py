"""Where a message waits for the model, and how long that takes."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

# What began in so many seconds says how fast the queue moves.
_WINDOW_SECONDS = 10.0


class QueuePlace(NamedTuple):
    """A place in the queue: 1 is the next. `expected_seconds` is None where nothing is known."""

    position: int
    expected_seconds: float | None


BEGUN = QueuePlace(0, None)
"""What other tasks are told of a response that waits no more."""


class StartRate:
    """How many answers begin in a second."""

    def __init__(self) -> None:
        self._starts: deque[float] = deque(maxlen=1_000)

    def note(self, now: float) -> None:
        """An answer begins."""
        self._starts.append(now)

    def expected_seconds(self, position: int, now: float, at_least: float = 0.0) -> float | None:
        """How long it takes until this place begins, in whole seconds.

        Args:
            at_least: for so many seconds nothing begins.
        """
        while self._starts and now - self._starts[0] > _WINDOW_SECONDS:
            self._starts.popleft()
        if not self._starts:
            return float(round(at_least)) if at_least else None
        span = max(1.0, now - self._starts[0])
        return float(round(max(at_least, position * span / len(self._starts))))
