"""A writer that is a thread: it costs a test a millisecond, and what a test patches, it sees."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from evenflow.stream_sqlite import writes
from evenflow.stream_sqlite.transactions import Transactions
from evenflow.stream_sqlite.writer import serve


class WriterThread:
    """In the place of the process: the same calls through a pipe of its own."""

    def __init__(self, path: Path, descriptor: int, _kept_open: Sequence[int]) -> None:
        self._path = path
        self._pipe = socket.socket(fileno=os.dup(descriptor))
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with (
            self._pipe,
            closing(Transactions(self._path, writes=True)) as transactions,
            suppress(OSError),
        ):
            serve(self._pipe, transactions.run)

    def kill(self) -> None:
        """Let it end."""
        with suppress(OSError):
            self._pipe.shutdown(socket.SHUT_RDWR)

    def wait(self) -> int:
        """Wait until it has ended."""
        self._thread.join()
        return 0


@pytest.fixture(autouse=True)
def writers_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the tests of a folder whose `conftest.py` imports this."""
    monkeypatch.setattr(writes, "_started", WriterThread)
