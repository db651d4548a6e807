"""Writes lines in a thread of its own, so that nobody waits for who reads them."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import time
from contextlib import suppress

_MOST_WAITING = 8_388_608
_MOST_AT_ONCE = 65_536


class LineWriter:
    """Writes lines to a descriptor, in their order, each whole.

    Not through a stream of Python's: its lock, held by a thread that waits for a full pipe, would
    end the process with an error. Not the `QueueListener` of `logging`: it waits without a limit
    at its end, and fails where the queue is full.

    Args:
        most_waiting: how many characters may wait.
    """

    def __init__(self, descriptor: int, most_waiting: int = _MOST_WAITING) -> None:
        self._descriptor = descriptor
        self._most_waiting = most_waiting
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Characters since the start. Each has one thread that changes it, so neither needs a lock.
        self._given = self._taken = 0
        # One that waits for a pipe must not keep the process.
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether it takes no more lines now."""
        return self._given - self._taken >= self._most_waiting

    def write(self, line: str) -> None:
        """Have a line written. Only one thread at a time may."""
        self._given += len(line) + 1
        self._waiting.put(f"{line}\n")

    def close(self, seconds: float) -> None:
        """End when all lines are written, or after so many seconds."""
        until = time.monotonic() + seconds
        self._waiting.put(None)
        self._thread.join(max(0.0, until - time.monotonic()))

    def _write_all(self) -> None:
        # Signals are for the main thread, which holds them back while the process ends.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (lines := self._next()) is not None:
            # Nobody reads any more, or the disk is full: there is nowhere to say so.
            with suppress(OSError):
                self._write(lines.encode(errors="backslashreplace"))
            self._taken += len(lines)

    def _next(self) -> str | None:
        """Lines that wait, at least one. A busy event loop lets this thread run seldom."""
        line = self._waiting.get()
        if line is None:
            return None
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
                # Whoever shares it has set it to do so.
                select.select((), (self._descriptor,), ())
