"""Logs what the operator should mend, without a line for every request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stream_core.protocol.errors import UpstreamRejected

_EVERY_SECONDS = 60.0
_MOST_LINES = 32


class OperatorLog:
    """Logs a line at once, and then at most once a minute, with the number of times since.

    Args:
        monotonic: seconds.
    """

    def __init__(
        self, logger: logging.Logger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._told: dict[str, tuple[float, int]] = {}  # time of the last line, and number since

    def error(self, line: str) -> None:
        """Log a line. It may have a server's text in it, so line ends are removed."""
        line = " ".join(line.split())
        now = self._monotonic()
        logged_at, met = self._told.get(line, (None, 0))
        if logged_at is not None and now - logged_at < _EVERY_SECONDS:
            self._told[line] = (logged_at, met + 1)
            return
        if len(self._told) >= _MOST_LINES:
            self._told.clear()
        self._told[line] = (now, 0)
        self._logger.error(
            "%s%s", line, f" ({met + 1} times since the last such line)" if met else ""
        )


def not_set_up() -> UpstreamRejected:
    """The error for readers meanwhile: asking again would not help."""
    return UpstreamRejected(
        "the model is not set up on this server; nothing was generated, the server's log says why",
        code="model_not_set_up",
    )
