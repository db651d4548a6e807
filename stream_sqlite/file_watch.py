"""Detects that the stores' file was deleted or replaced while it is in use."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from math import inf
from pathlib import Path

from evenflow.stream_sqlite.file import FileUnusable, connect, prepare, signing_key
from evenflow.stream_sqlite.process_lock import FileId, ProcessLock, file_id
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes

_logger = logging.getLogger(__name__)

# The file, and the two that SQLite keeps beside it while it is open.
_SUFFIXES = ("", "-wal", "-shm")
# After this time all processes have closed the lost file, since they check once a second.
_PAUSE_SECONDS = 3.0


class FileWatch:
    """Checks whether the file is still the one that was opened.

    SQLite does not check: it would write into a deleted file, which is lost at the end. So a file
    that is gone is closed at once, which saves its data if only a file beside it was deleted. Until
    there is a file again, nothing is read or written.

    Args:
        path: the file, which the stores have opened.
        lock: of this process.
    """

    def __init__(
        self, path: Path, lock: ProcessLock, readers: Sequence[Reads], writes: Writes
    ) -> None:
        self._path = path
        self._lock = lock
        self._readers = readers
        self._writes = writes
        self._used: dict[str, FileId] = {}
        self._again_at = inf
        self._begin()

    @property
    def is_lost(self) -> bool:
        """Whether the file is gone, so that nothing is read or written."""
        return self._again_at < inf

    def look(self, now: float, *, needs_tenants: bool) -> str | None:
        """Check the file. Called about once a second.

        Args:
            now: seconds, on a monotonic clock.
            needs_tenants: whether to ignore a file without tenants. Otherwise a server that
                requires keys might become open to all.

        Returns:
            The key of session tokens in a new file that is used from now on, or None.
        """
        if self.is_lost:
            return self._open_again(needs_tenants=needs_tenants) if now >= self._again_at else None
        files = self._present_files()
        changed = [suffix for suffix, file in self._used.items() if files.get(suffix) != file]
        if changed:
            self._lose(changed, now)
        else:
            self._used = files
            self._keep_lock()
        return None

    def _begin(self) -> None:
        # SQLite may create the others only with the first transaction.
        self._used = {suffix: file for suffix, file in self._present_files().items() if not suffix}
        self._again_at = inf

    def _present_files(self) -> dict[str, FileId]:
        files = {suffix: file_id(Path(f"{self._path}{suffix}")) for suffix in _SUFFIXES}
        return {suffix: file for suffix, file in files.items() if file is not None}

    def _lose(self, changed: list[str], now: float) -> None:
        self._again_at = now + _PAUSE_SECONDS
        names = " and ".join(f"{self._path.name}{suffix}" for suffix in changed)
        what = f"EVENFLOW_STORE_PATH={self._path}: {names} deleted or replaced while in use"
        _logger.error(
            "%s; until there is a file again nothing is kept, new messages are refused and /health "
            "says store_lost. Put a copy back, or restart the server, which makes an empty file: "
            "sessions, tenants and usage of a deleted file are lost",
            what,
        )
        # The last `close` saves the data if only a file beside the database was deleted.
        for reads in self._readers:
            reads.close(what)
        self._writes.close(what)

    def _open_again(self, *, needs_tenants: bool) -> str | None:
        """Open the file that has the name now, if it is a valid store."""
        if file_id(self._path) is None:
            return None
        try:
            prepare(self._path)
            with closing(connect(self._path)) as connection:
                if needs_tenants and not _has_tenants(connection):
                    return None
                key = signing_key(connection)
            self._lock.keep()
        except (FileUnusable, sqlite3.Error, OSError):
            return None
        self._writes.open((self._lock.descriptor,))
        for reads in self._readers:
            reads.open()
        self._begin()
        _logger.warning("EVENFLOW_STORE_PATH=%s: the file that is there now is used", self._path)
        return key

    def _keep_lock(self) -> None:
        try:
            is_new = self._lock.keep()
        except OSError as error:
            _logger.error("the lock of this process beside %s can't be made: %s", self._path, error)
            return
        if is_new:
            _logger.warning(
                "the lock of this process beside %s was deleted, and was made anew; files named "
                "%s-process-… are those of running servers: leave them there",
                self._path, self._path.name,
            )  # fmt: skip
            # The writer process holds the old lock, so it is started again.
            self._writes.close()
            self._writes.open((self._lock.descriptor,))


def _has_tenants(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM tenants").fetchone() is not None
