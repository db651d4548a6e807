"""The log of this process: it never stops the process, and nobody outside can fill it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from fargate_handler.line_writer import LineWriter
from stream_core.policy.log_rate import LogRate

REPEATED = "repeated"
"""Why a line was left out: there was one of its kind within the second."""

UNREAD = "unread"
"""Why a line was left out: standard error isn't read, and too many lines wait."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

# As "%s: %s". Then the first value says what happened.
_VALUES_ONLY = re.compile(r"%s(?:[\s:]*%s)*")
_FLUSH_SECONDS = 2.0
_LONGEST = 8_192
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}


class LineFormatter(logging.Formatter):
    """A message is one line, whatever a client wrote into it. A traceback follows on its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, without control characters."""
        return super().formatMessage(record).translate(_CONTROLS)


class BoundedLog(logging.Handler):
    """Logs one line a second of each kind, and drops lines while too many wait.

    A kind is a logger and a message without its values, or the first value where it has nothing
    else. The next line of a kind says how many were left out, and the first line after some were
    dropped how many these were.

    Args:
        count: told for each line that is left out why: `REPEATED` or `UNREAD`.
        monotonic: seconds.
    """

    def __init__(
        self,
        writer: LineWriter,
        count: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._writer = writer
        self._count = count
        self._monotonic = monotonic
        self._rate = LogRate()
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Log it, unless it is one too many."""
        if self._writer.full:
            self._dropped += 1
            self._count(UNREAD)
            return
        left_out: int | None = 0
        if not getattr(record, "each", False):
            left_out = self._rate.admit(_kind(record), self._monotonic())
        if left_out is None:
            self._count(REPEATED)
            return
        notes = ""
        if left_out:
            notes += f" ({left_out} more of this kind were left out)"
        if self._dropped:
            notes += f" ({self._dropped} lines before it were dropped: the log was not read)"
            self._dropped = 0
        self._writer.write(self._line(record, notes))

    def close(self) -> None:
        """Wait until all is written, at most two seconds. `logging` calls this at the end."""
        super().close()
        self._writer.close(_FLUSH_SECONDS)

    def _line(self, record: logging.LogRecord, notes: str) -> str:
        try:
            line, newline, traceback = self.format(record).partition("\n")
        except Exception as error:
            return f"{record.name}: {record.msg!r} could not be logged: {error!r}"[:_LONGEST]
        whole = f"{_cut(line, _LONGEST)}{notes}{newline}{traceback}"
        return _cut(whole, 2 * _LONGEST)


def _kind(record: logging.LogRecord) -> str:
    said = str(record.msg)
    if isinstance(record.args, tuple) and record.args and _VALUES_ONLY.fullmatch(said):
        said = str(record.args[0])
    # asyncio's messages go on with objects and their addresses.
    return f"{record.name}:{said.partition(chr(10))[0]}"


def _cut(text: str, longest: int) -> str:
    """Cut it in the middle: a traceback ends with the error."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} … {text[-longest // 2 :]}"
