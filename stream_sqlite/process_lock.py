"""The lock by which processes that share a file detect which of them have ended."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

_LOCK_INFIX = "-process-"
# Seconds before a process without a lock file counts as ended. A live one checks once a second, and
# creates a deleted lock file again.
_MISSING_SECONDS = 2.0

FileId = tuple[int, int]
"""Identifies a file by device and inode, independently of its name."""


def file_id(path: Path) -> FileId | None:
    """The identity of the file that has this name now. None: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class ProcessLock:
    """The lock of this process: a file beside the database, locked until the process ends, and
    the one that writes for it.

    Args:
        database: the shared file.
        monotonic: the time in seconds, on a monotonic clock.

    Raises:
        OSError: the lock's file can't be made.
    """

    def __init__(self, database: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.name = secrets.token_hex(8)
        """The name by which other processes find the lock."""
        self._database = database
        self._monotonic = monotonic
        self._path = self._path_of(self.name)
        self._missing_since: dict[str, float] = {}
        self.descriptor = self._make()

    def _make(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def keep(self) -> bool:
        """Create the lock file again if it was deleted. Returns whether it was.

        Raises:
            OSError: it can't be created.
        """
        if file_id(self._path) is not None:
            return False
        descriptor = self._make()
        os.close(self.descriptor)
        self.descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock up, because the process ends."""
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def is_gone(self, name: str) -> bool:
        """Whether the process with this lock has ended. If so, its file is deleted.

        If its file is missing, a clean-up may have deleted it, and the process gets time to notice.
        """
        if name == self.name:
            return False
        path = self._path_of(name)
        if file_id(path) is None:
            now = self._monotonic()
            return now - self._missing_since.setdefault(name, now) >= _MISSING_SECONDS
        self._missing_since.pop(name, None)
        if _is_locked(path):
            return False
        path.unlink(missing_ok=True)
        return True

    def _path_of(self, name: str) -> Path:
        return self._database.with_name(f"{self._database.name}{_LOCK_INFIX}{name}")


def _is_locked(path: Path) -> bool:
    """Whether the process that made this lock still runs."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_in_use(database: Path) -> bool:
    """Whether a running process has a lock beside the database."""
    prefix = f"{database.name}{_LOCK_INFIX}"
    return any(
        _is_locked(lock) for lock in database.parent.iterdir() if lock.name.startswith(prefix)
    )
