"""What whoever runs this should mend, told once and not with every request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stream_core.protocol.errors import UpstreamRejected

_EVERY_SECONDS = 60.0
_MOST_LINES = 32


class OperatorLog:
    """Logs the same line at once, and then at most once a minute, with how often it was met meanwhile.

    Args:
        monotonic: seconds.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._told: dict[str, tuple[float, int]] = {}  # line → when it was logged last, and how often it was met since

    def error(self, line: str) -> None:
        """It was met once more. What a server said may be in it, which must not end the line."""
        line = " ".join(line.split())
        now = self._monotonic()
        logged_at, met = self._told.get(line, (None, 0))
        if logged_at is not None and now - logged_at < _EVERY_SECONDS:
            self._told[line] = (logged_at, met + 1)
            return
        if len(self._told) >= _MOST_LINES:
            self._told.clear()
        self._told[line] = (now, 0)
        self._logger.error("%s%s", line, f" ({met + 1} times since the last such line)" if met else "")


def not_set_up() -> UpstreamRejected:
    """What a reader is told meanwhile: asking again would not help."""
    return UpstreamRejected(
        "the model is not set up on this server; nothing was generated, whoever runs it finds the reason in its log",
        code="model_not_set_up",
    )
