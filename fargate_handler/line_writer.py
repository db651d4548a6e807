"""Writes lines in a thread of its own, so that nobody waits for who reads them."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import time
from contextlib import suppress

_MOST_WAITING = 1_000


class LineWriter:
    """Writes lines to a descriptor, in their order, each whole.

    Not through a stream of Python's: its lock, held by a thread that waits for a full pipe, would
    end the process with an error. Not the `QueueListener` of `logging`: it waits without a limit
    at its end, and fails where the queue is full.

    Args:
        most_waiting: how many lines may wait.
    """

    def __init__(self, descriptor: int, most_waiting: int = _MOST_WAITING) -> None:
        self._descriptor = descriptor
        self._waiting: queue.Queue[str | None] = queue.Queue(most_waiting)
        # One that waits for a pipe must not keep the process.
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether it takes no more lines now."""
        return self._waiting.full()

    def write(self, line: str) -> None:
        """Have a line written. Only one thread at a time may, and only while it isn't `full`."""
        self._waiting.put_nowait(line)

    def close(self, seconds: float) -> None:
        """End when all lines are written, or after so many seconds."""
        until = time.monotonic() + seconds
        with suppress(queue.Full):
            self._waiting.put(None, timeout=seconds)
            self._thread.join(max(0.0, until - time.monotonic()))

    def _write_all(self) -> None:
        # Signals are for the main thread, which holds them back while the process ends.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (line := self._waiting.get()) is not None:
            # Nobody reads any more, or the disk is full: there is nowhere to say so.
            with suppress(OSError):
                self._write(f"{line}\n".encode(errors="backslashreplace"))

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                # Whoever shares it has set it to do so.
                select.select((), (self._descriptor,), ())
