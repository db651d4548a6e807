"""The log of this process: it never stops the process, and nobody outside can fill it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from evenflow.fargate_handler.runtime.line_writer import LineWriter
from evenflow.stream_core.bounds.log_rate import LogRate
from evenflow.stream_core.records.event_record import EventRecord

REPEATED = "repeated"
"""Why a line was left out: there were enough of its kind within the second."""

UNREAD = "unread"
"""Why a line was left out: standard error isn't read, and too much waits."""

# As "%s: %s". Then the first value says what happened.
_VALUES_ONLY = re.compile(r"%s(?:[\s:]*%s)*")
_FLUSH_SECONDS = 2.0


class BoundedLog(logging.Handler):
    """Logs one line a second of each kind, and drops lines while too many wait.

    A kind is a logger and a message without its values, or the first value where it has nothing
    else. An `EventRecord` says itself what it is, and how many a second are logged. The next line
    of a kind says how many were left out, and the first line after some were dropped how many these
    were: its attributes are `left_out` and `dropped`, which its formatter writes.

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
        left_out = self._admit(record)
        if left_out is None:
            self._count(REPEATED)
            return
        if left_out:
            record.__dict__["left_out"] = left_out
        if self._dropped:
            record.__dict__["dropped"], self._dropped = self._dropped, 0
        self._writer.write(self._line(record))

    def close(self) -> None:
        """Wait until all is written, at most two seconds. `logging` calls this at the end."""
        super().close()
        self._writer.close(_FLUSH_SECONDS)

    def _admit(self, record: logging.LogRecord) -> int | None:
        """How many of its kind were left out before it. None: this one is, too."""
        event = record.msg
        if isinstance(event, EventRecord):
            if event.MOST_PER_SECOND is None:
                return 0
            return self._rate.admit(event.kind, self._monotonic(), event.MOST_PER_SECOND)
        if getattr(record, "each", False):
            return 0
        return self._rate.admit(_kind(record), self._monotonic())

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:
            said = (record.msg, error)
            record.msg, record.args = "%r could not be logged: %r", said
            return self.format(record)


def _kind(record: logging.LogRecord) -> str:
    said = str(record.msg)
    if isinstance(record.args, tuple) and record.args and _VALUES_ONLY.fullmatch(said):
        said = str(record.args[0])
    # asyncio's messages go on with objects and their addresses.
    return f"{record.name}:{said.partition(chr(10))[0]}"
