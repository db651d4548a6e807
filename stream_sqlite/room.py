"""How much more the file may take, and from whom. Keeps it small."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from evenflow.stream_core.policy.store_share import has_room
from evenflow.stream_core.ports.session_store import StoreFull
from evenflow.stream_sqlite.expiry import tidy
from evenflow.stream_sqlite.file import LOG_BYTES, FileState, connect
from evenflow.stream_sqlite.kept_bytes import Holder, kept_for
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.reserve import Reserve
from evenflow.stream_sqlite.writes import Writes

_logger = logging.getLogger(__name__)

UNBOUNDED = 2**63
"""Bytes of a file that has no bound of its own."""

# Each deletes hundreds of rows: so thousands go in a second, more than come for long.
_ROUNDS = 8
_TELL_SECONDS = 60.0
_MEBIBYTE = 1_048_576


class Room:
    """The room for messages: what `most_bytes` leaves, or the disk, whichever is less.

    The file and the disk are looked at once a second. What is accepted meanwhile is counted here,
    so several processes may together take a little more than there is: the reserve is larger.

    Args:
        state: the file as it is now.
        most_bytes: that the file may have of what is kept.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        state: FileState,
        most_bytes: int,
        writes: Writes,
        reads: Reads,
        wall_time: Callable[[], float],
    ) -> None:
        self._path = path
        self._state = state
        self._most_bytes = most_bytes
        self._writes = writes
        self._reads = reads
        self._wall_time = wall_time
        self._reserve = Reserve(path)
        self._taken = 0
        """Bytes of messages since `_state` was read."""
        self._tidying = False
        self._has_reserve = True
        self._told_at = 0.0

    async def check(self, holder: Holder, size: int) -> None:
        """Check that a message of `size` bytes may be kept for this sender.

        Raises:
            StoreFull: there is no room, or the sender has too much already.
            StoreUnavailable: the file can't be read.
        """
        used = self._state.used_bytes + self._taken
        try:
            most = used + min(self._most_bytes - used, self._left_on_disk())
        except OSError:
            return  # the file is gone, as who writes it will say
        # While there is much room it does not matter who has how much.
        if not has_room(most, used, size, used, used, used):
            kept = await self._reads.run(partial(kept_for, holder=holder))
            if not has_room(most, used, size, *kept):
                self._tell(holder, kept, most, used)
                raise StoreFull
        self._taken += size

    async def tidy(self) -> None:
        """Delete what has expired, and give the disk back what is free. Called once a second.

        Raises:
            StoreUnavailable: the file can't be written.
        """
        if self._tidying:
            return
        self._tidying = True
        try:
            for _ in range(_ROUNDS):
                taken = self._taken
                state, more = await self._writes.run(partial(tidy, now=self._wall_time()))
                self._state, self._taken = state, self._taken - taken
                if not more:
                    break
            self._keep_reserve()
            if _size(self._path) > self._state.bytes:
                await asyncio.to_thread(_end_earlier, self._path)
        finally:
            self._tidying = False

    def _left_on_disk(self) -> int:
        """Bytes that the disk has for messages: free ones of the file, and of the disk.

        Raises:
            OSError: the file is gone.
        """
        written = self._path.stat().st_size
        free = self._reserve.room()
        # All goes to the log of writes first, and pages there are to be in the file, too.
        log_bytes = _size(self._path.with_name(f"{self._path.name}-wal"))
        taken = max(0, self._state.bytes - written) + max(0, LOG_BYTES - log_bytes)
        return free + self._state.free_bytes - taken - self._taken

    def _keep_reserve(self) -> None:
        try:
            has_reserve = self._reserve.keep()
        except OSError:  # the folder is gone, or another program made the disk full
            return
        if not has_reserve and self._has_reserve:
            _logger.error(
                "EVENFLOW_STORE_PATH=%s: the disk is full, and the reserve of the store is used to "
                "end answers and to delete what has expired; messages are refused with store_full "
                "until the disk has room",
                self._path,
            )
        self._has_reserve = has_reserve

    def _tell(self, holder: Holder, kept: Sequence[int], most: int, used: int) -> None:
        now = self._wall_time()
        if now - self._told_at < _TELL_SECONDS:
            return
        self._told_at = now
        bound = (
            f"EVENFLOW_STORE_BYTES={self._most_bytes}"
            if most == self._most_bytes
            else f"the disk of EVENFLOW_STORE_PATH={self._path}"
        )
        _logger.warning(
            "store_full: %s allows %d MiB, and the store has %d. Tenant %s, the address that is "
            "refused, and its session or user have of these %s. Who has less is not refused; room "
            "comes when messages expire",
            bound, most // _MEBIBYTE, used // _MEBIBYTE, holder.tenant,
            ", ".join(str(size // _MEBIBYTE) for size in kept),
        )  # fmt: skip


def _end_earlier(path: Path) -> None:
    """Write the log of writes to the file, which ends before its free pages then."""
    with suppress(sqlite3.Error), closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
