"""Whether the process that a lease belongs to is still there: the kernel keeps a lock for it.

A lease alone would tell only when it has run out, and who goes on after a crash would wait for that.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path


class ProcessLock:
    """This process' lock: a file beside the database, locked until it is released or the process ends.

    Args:
        database: the file that is shared.

    Raises:
        OSError: the file can't be made.
    """

    def __init__(self, database: Path) -> None:
        self.name = secrets.token_hex(8)
        """Under which others find it."""
        self._database = database
        self._path = self._path_of(self.name)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """The process goes."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def is_gone(self, name: str) -> bool:
        """Whether the process with this lock has ended. What it left is cleared away."""
        path = self._path_of(name)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        return True

    def _path_of(self, name: str) -> Path:
        return self._database.with_name(f"{self._database.name}-process-{name}")
