"""The times by which a request must be answered, and a client must have sent something."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from evenflow.stream_core.base.errors import UpstreamTimeout

# Longer than any model may take. Larger numbers could be beyond a float's range.
_LONGEST_TIMEOUT_MS = 86_400_000
# Shares of a client's time. A step that is shorter than the loop is late would never end.
_LONGEST_STEP = 1 / 4
_SHORTEST_STEP = 1 / 20


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


class ClientTimer:
    """Calls `call` once a client has had its time, without the time in which the loop was late.

    While the loop is late, what the client has sent lies unread. So the time passes in steps, and
    the lateness of each step is added to the time that is left.

    Args:
        seconds: of the client.
    """

    __slots__ = ("_call", "_handle", "_left", "_loop", "_seconds", "_step")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], None]
    ) -> None:
        self._call: Callable[[], None] | None = call
        self._loop = loop
        self._seconds = self._left = seconds
        self._step = seconds * _LONGEST_STEP
        self._handle = loop.call_later(self._step, self._next_step)

    def redirect(self, call: Callable[[], None]) -> None:
        """Call another target instead, at the same time."""
        self._call = call

    def stop(self) -> None:
        """Cancel the call, and release its target."""
        self._handle.cancel()
        self._call = None

    def _next_step(self) -> None:
        lateness = self._loop.time() - self._handle.when()
        self._left -= max(0.0, self._step - lateness)
        if self._left > 0:
            longest, shortest = self._seconds * _LONGEST_STEP, self._seconds * _SHORTEST_STEP
            self._step = min(longest, max(self._left, shortest))
            self._handle = self._loop.call_later(self._step, self._next_step)
        elif self._call is not None:
            self._call()


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
