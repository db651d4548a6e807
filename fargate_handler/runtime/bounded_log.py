"""The log of this process: bounded in rate and memory, and written by a separate thread."""

from __future__ import annotations

import logging
import os
import queue
import re
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from evenflow.stream_core.bounds.log_rate import LogRate
from evenflow.stream_core.records.event_record import EventRecord

_MOST_WAITING = 8_388_608
_MOST_AT_ONCE = 65_536
# For how long lines are gathered. A thread that woke for each would stop the event loop each time.
_GATHERED_SECONDS = 0.005


class LineWriter:
    """Writes lines to a descriptor, in their order, each whole.

    Not through a stream of Python's: its lock, held by a thread that waits for a full pipe, would
    end the process with an error. Not the `QueueListener` of `logging`: it waits without a limit
    at its end, and fails where the queue is full.

    Args:
        most_waiting: the most characters that may wait.
    """

    def __init__(self, descriptor: int, most_waiting: int = _MOST_WAITING) -> None:
        self._descriptor = descriptor
        self._most_waiting = most_waiting
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Characters since the start. Each has one thread that changes it, so neither needs a lock.
        self._queued = self._written = 0
        # One that waits for a pipe must not keep the process.
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether too many characters wait."""
        return self._queued - self._written >= self._most_waiting

    def write(self, line: str) -> None:
        """Queue a line. Only one thread at a time may call this."""
        self._queued += len(line) + 1
        self._waiting.put(f"{line}\n")

    def close(self, seconds: float) -> None:
        """End when all lines are written, or after `seconds`."""
        until = time.monotonic() + seconds
        self._waiting.put(None)
        self._thread.join(max(0.0, until - time.monotonic()))

    def _write_all(self) -> None:
        # Signals are for the main thread, which holds them back while the process ends.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (lines := self._next()) is not None:
            # The pipe was closed, or the disk is full: there is no place to log that.
            with suppress(OSError):
                self._write(lines.encode(errors="backslashreplace"))
            self._written += len(lines)

    def _next(self) -> str | None:
        """Lines that wait, at least one. A busy event loop lets this thread run seldom."""
        line = self._waiting.get()
        if line is None:
            return None
        time.sleep(_GATHERED_SECONDS)
        lines = [line]
        size = len(line)
        with suppress(queue.Empty):
            while size < _MOST_AT_ONCE:
                line = self._waiting.get_nowait()
                if line is None:
                    self._waiting.put(None)
                    break
                lines.append(line)
                size += len(line)
        return "".join(lines)

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                # Another process that shares the descriptor has made it non-blocking.
                select.select((), (self._descriptor,), ())


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
    else. An `EventRecord` has its own kind and rate. The next line of a kind has the attribute
    `left_out`, the number of lines left out. The first line after dropped ones has `dropped`. The
    formatter writes both.

    Args:
        count: called for each line that is left out, with `REPEATED` or `UNREAD`.
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
        """Log a record, unless its kind is over its rate or too much waits."""
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
        """The number of records of its kind left out before it. None: it is left out, too."""
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
            failure = (record.msg, error)
            record.msg, record.args = "%r could not be logged: %r", failure
            return self.format(record)


def _kind(record: logging.LogRecord) -> str:
    message = str(record.msg)
    if isinstance(record.args, tuple) and record.args and _VALUES_ONLY.fullmatch(message):
        message = str(record.args[0])
    # asyncio's messages go on with objects and their addresses.
    return f"{record.name}:{message.partition(chr(10))[0]}"
