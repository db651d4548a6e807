"""How long a client is willing to wait."""

from __future__ import annotations

import math
from collections.abc import Callable

from stream_core.errors import UpstreamTimeout

TIMEOUT_HEADER = "Evenflow-Timeout-Ms"
# Longer than any model may take; what is beyond a float's range must not be counted with.
_LONGEST_MS = 86_400_000


class TimedOut(UpstreamTimeout):
    """A client has waited for as long as it was willing to."""


class Deadline:
    """The moment at which a request should be answered.

    Args:
        timeout_ms: from now on; None for as long as the model takes.
        monotonic: seconds.
    """

    def __init__(self, timeout_ms: int | None, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._at = math.inf if timeout_ms is None else monotonic() + min(timeout_ms, _LONGEST_MS) / 1000

    @property
    def left(self) -> float:
        """Seconds, 0 or more."""
        return max(0.0, self._at - self._monotonic())

    def check(self) -> None:
        """Whether there is time left.

        Raises:
            TimedOut: there isn't.
        """
        if not self.left:
            raise TimedOut(
                f"the answer was not complete within the {self._timeout_ms} ms that the request allows",
                code="timeout",
                param="timeout_ms",
            )
