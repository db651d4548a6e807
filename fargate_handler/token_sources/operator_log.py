"""Logs faults that the operator should mend, without a line for every request."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from evenflow.stream_core.base.errors import UpstreamRejected

_EVERY_SECONDS = 60.0
_MOST_LINES = 32
_MOST_LOGGED, _MOST_MASKED = 300, 2_000
_SECRET = re.compile(
    r"""
    (?<=://)\S*@                                   # user and password in a URL
    | \beyJ[\w-]+\.[\w.-]+                         # a JSON web token
    | \b(?:sk|pk|rk|gh[opsu]|xox[a-z]|hf|AIza)[-_][\w-]{4,} | \b(?:AKIA|ASIA)\w{8,}
    | (?<=\bbearer\s)\S+ | (?<=\bbasic\s)\S+
    | (?<!\d\ )(?P<name>(?:pass(?:word|wd|phrase)?|pwd|secret|token|credential|authorization
        |api[_-]?key|access[_-]?key|signature)s?["']?\s*[=:]\s*)
        (?:"[^"]*"|'[^']*'|(?:(?:bearer|basic)\s+)?[^\s,;&"']+)
    | (?<![\w+/=-])[\w+=-]{40,}                     # long and of no words: likely a key
    """,
    re.IGNORECASE | re.VERBOSE,
)


def masked(text: str) -> str:
    """The text with "…" in the place of whatever looks like a secret."""
    return _SECRET.sub(lambda match: f"{match['name'] or ''}…", text)


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
        self._logged_lines: dict[
            str, tuple[float, int]
        ] = {}  # time of the last line, and number since

    def error(self, line: str, server_message: str = "") -> None:
        """Log a fault that the operator must mend.

        Args:
            line: may contain a server's text, so secrets are masked.
            server_message: the server's words. Lines that differ only in them count as the same.
        """
        self._log(logging.ERROR, masked(" ".join(line.split())), server_message)

    def warning(self, line: str, server_message: str) -> None:
        """Log what a server answered to one request. The arguments are as for `error`."""
        self._log(logging.WARNING, line, server_message)

    def _log(self, level: int, line: str, server_message: str) -> None:
        now = self._monotonic()
        logged_at, repeats = self._logged_lines.get(line, (None, 0))
        if logged_at is not None and now - logged_at < _EVERY_SECONDS:
            self._logged_lines[line] = (logged_at, repeats + 1)
            return
        if len(self._logged_lines) >= _MOST_LINES:
            self._logged_lines.clear()
        self._logged_lines[line] = (now, 0)
        # More than is logged, since a truncated secret may not look like one.
        message = masked(" ".join(server_message[:_MOST_MASKED].split()))[:_MOST_LOGGED]
        suffix = f" ({repeats + 1} times since the last such line)" if repeats else ""
        self._logger.log(level, "%s%s%s", line, f": {message}" if message else "", suffix)


def not_set_up() -> UpstreamRejected:
    """The error for readers meanwhile: asking again would not help."""
    return UpstreamRejected(
        "the model is not set up on this server; nothing was generated, the server's log says why",
        code="model_not_set_up",
    )
