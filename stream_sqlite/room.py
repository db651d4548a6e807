"""The room in the file: what each sender may add, and what goes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from operator import add
from pathlib import Path

from evenflow.stream_core.policy.store_share import has_room
from evenflow.stream_core.ports.session_store import StoreFull
from evenflow.stream_sqlite.expiry import tidy
from evenflow.stream_sqlite.file import LOG_BYTES, FileState, connect, file_state
from evenflow.stream_sqlite.kept_bytes import Holder, read_kept
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.reserve import Reserve
from evenflow.stream_sqlite.writes import Writes

_logger = logging.getLogger(__name__)

UNBOUNDED = 2**63
"""Bytes of a file that has no bound of its own."""

# Each deletes hundreds of rows: so thousands go in a second, more than come for long.
_ROUNDS = 8
_REFUSAL_LOG_SECONDS, _HALF_FULL_LOG_SECONDS = 60.0, 86_400.0
# Of what is free: the disk is looked at seldom where there is much.
_UNCHECKED_PART = 64
_MEBIBYTE = 1_048_576


class Room:
    """The room for messages: what `most_bytes` leaves, or the disk, whichever is less.

    The file is looked at once a second, and again where there is little room. Several processes may
    together take a little more than there is: the reserve is larger.

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
        self._in_flight = self._written = self._seen = 0
        """Bytes of messages: being written, ever written, and of the latter those in `_state`."""
        self._in_flight_of: Counter[str] = Counter()
        self._unchecked = 0
        """Bytes that may be taken before the file and the disk are looked at again."""
        self._tidying = False
        self._has_reserve = True
        self._refusal_logged_at = self._half_full_logged_at = 0.0

    @asynccontextmanager
    async def reserve(self, holder: Holder, size: int) -> AsyncIterator[None]:
        """Take room for a message of `size` bytes of this sender, which is written in the block.

        Raises:
            StoreFull: there is no room, or the sender has too much already.
            StoreUnavailable: the file can't be read.
        """
        self._take(holder, size)
        try:
            # The file is gone: the write fails, and says so.
            with suppress(OSError):
                await self._check(holder, size)
            yield
            self._written += size
        finally:
            self._take(holder, -size)

    def _take(self, holder: Holder, size: int) -> None:
        self._in_flight += size
        for name in holder.names:
            self._in_flight_of[name] += size
            if not self._in_flight_of[name]:
                del self._in_flight_of[name]

    async def _check(self, holder: Holder, size: int) -> None:
        """Check that there was room for a message before it was taken."""
        self._unchecked -= size
        if self._unchecked >= 0:
            return
        most, used = self._bounds()
        before = used - size
        # While there is much room the shares of senders do not matter.
        if has_room(most, before, size, before, before, before):
            self._unchecked = (most - used) // _UNCHECKED_PART
            return
        # A message may be written behind the read, and end before its result is here.
        in_flight = [self._in_flight_of[name] - size for name in holder.names]
        written = self._written
        state, on_record = await self._reads.run(partial(_look, holder=holder))
        self._see(state, written)
        most, used = self._bounds()
        kept = [*map(add, on_record, in_flight)]
        if not has_room(most, used - size, size, *kept):
            self._log_refusal(holder, kept, most, used)
            raise StoreFull

    def _see(self, state: FileState, written: int) -> None:
        """Take the state of the file, which was read when so many bytes had been written."""
        if written >= self._seen:
            self._state, self._seen = state, written

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
                written = self._written
                state, more = await self._writes.run(partial(tidy, now=self._wall_time()))
                self._see(state, written)
                self._unchecked = 0
                if not more:
                    break
            self._keep_reserve()
            self._log_half_full()
            if _size(self._path) > self._state.bytes:
                await asyncio.to_thread(_end_earlier, self._path)
        finally:
            self._tidying = False

    def _bounds(self) -> tuple[int, int]:
        """Bytes that may be kept, and that are.

        Raises:
            OSError: the file is gone.
        """
        state, taken = self._state, self._in_flight + self._written - self._seen
        used = state.used_bytes + taken
        length = self._path.stat().st_size
        log_bytes = _size(self._path.with_name(f"{self._path.name}-wal"))
        # All goes to the log of writes first, and pages there are to be in the file, too.
        to_write = max(0, state.bytes - length) + max(0, LOG_BYTES - log_bytes)
        on_disk = self._reserve.room() + state.free_bytes - to_write - taken
        return used + min(self._most_bytes - used, on_disk), used

    def _keep_reserve(self) -> None:
        try:
            has_reserve = self._reserve.allocate()
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

    def _log_half_full(self) -> None:
        """Tell the operator once a day that the store is half full."""
        now = self._wall_time()
        with suppress(OSError):
            most, used = self._bounds()
            if used > most // 2 and now - self._half_full_logged_at >= _HALF_FULL_LOG_SECONDS:
                self._half_full_logged_at = now
                _logger.warning(
                    "the store has %d of the %d MiB that %s allows; from three quarters on senders "
                    "that have much are refused with store_full",
                    used // _MEBIBYTE, most // _MEBIBYTE, self._bound(most),
                )  # fmt: skip

    def _bound(self, most: int) -> str:
        """What bounds the store now."""
        if most == self._most_bytes:
            return f"EVENFLOW_STORE_BYTES={most}"
        return f"the disk of EVENFLOW_STORE_PATH={self._path}"

    def _log_refusal(self, holder: Holder, kept: Sequence[int], most: int, used: int) -> None:
        now = self._wall_time()
        if now - self._refusal_logged_at < _REFUSAL_LOG_SECONDS:
            return
        self._refusal_logged_at = now
        _logger.warning(
            "store_full: %s allows %d MiB, and the store has %d. Tenant %s, the address that is "
            "refused, and its session or user have of these %s. Senders with less go on; room "
            "comes when messages expire",
            self._bound(most), most // _MEBIBYTE, used // _MEBIBYTE, holder.tenant,
            ", ".join(str(size // _MEBIBYTE) for size in kept),
        )  # fmt: skip


def _look(connection: sqlite3.Connection, holder: Holder) -> tuple[FileState, list[int]]:
    return file_state(connection), read_kept(connection, holder)


def _end_earlier(path: Path) -> None:
    """Write the log of writes to the file, which ends before its free pages then."""
    with suppress(sqlite3.Error), closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
