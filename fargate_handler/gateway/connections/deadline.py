"""The time by which a request must be answered."""

from __future__ import annotations

import math
from collections.abc import Callable

from evenflow.stream_core.base.errors import UpstreamTimeout

# Longer than any model may take. Larger numbers could be beyond a float's range.
_LONGEST_TIMEOUT_MS = 86_400_000


class TimedOut(UpstreamTimeout):
    """The client's timeout has passed."""


class Deadline:
    """The time by which a request must be answered.

    Args:
        timeout_ms: milliseconds from now. None: as long as the model takes.
        monotonic: seconds.
    """

    def __init__(self, timeout_ms: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._at = (
            math.inf
            if timeout_ms is None
            else monotonic() + min(timeout_ms, _LONGEST_TIMEOUT_MS) / 1000
        )

    @property
    def left(self) -> float:
        """Seconds left, 0 or more."""
        return max(0.0, self._at - self._monotonic())

    def check(self) -> None:
        """Check that there is time left.

        Raises:
            TimedOut: there is none.
        """
        if not self.left:
            raise TimedOut(
                f"the answer was not complete within the {self._timeout_ms} ms that the request "
                "allows",
                code="timeout",
                param="timeout_ms",
            )


class ClockTimer:
    """A call at a time of the delivery clock. The clock keeps it, also when it was stopped."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def on_due(self, _slot: int) -> None:
        """The time has come."""
        if self._call is not None:
            self._call()

    def stop(self) -> None:
        """Cancel the call, and release its target."""
        self._call = None
