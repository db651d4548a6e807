"""The room in the file: how much each sender may add, and how room is regained."""

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

from evenflow.stream_core.bounds.store_share import has_room
from evenflow.stream_core.stores.session_store import StoreFull
from evenflow.stream_sqlite.expiry import tidy
from evenflow.stream_sqlite.file import LOG_BYTES, FileState, connect, file_state
from evenflow.stream_sqlite.kept_bytes import Holder, read_kept
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.reserve import Reserve
from evenflow.stream_sqlite.writes import Writes

_logger = logging.getLogger(__name__)

UNBOUNDED = 2**63
"""The bound of a file that only the disk bounds."""

# Transactions of one `tidy`. Each deletes hundreds of rows: together more than come in a second.
_ROUNDS = 8
_REFUSAL_LOG_SECONDS, _HALF_FULL_LOG_SECONDS = 60.0, 86_400.0
# One part of this many of the free room is given out before the file and the disk are read again.
_UNCHECKED_PART = 64
_MEBIBYTE = 1_048_576


class Room:
    """The room for messages: what is left of `most_bytes`, or on the disk if that is less.

    The state of the file is read once a second, and for each message while there is little room.
    Several processes may together take a little more than the room. That is less than the reserve.

    Args:
        path: the file.
        state: the file as it is now.
        most_bytes: the largest sum of the file's used pages.
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
        self._in_flight = self._written = self._written_in_state = 0
        """Bytes of messages: being written, ever written, and of these the ones that `_state` has.
        """
        self._in_flight_by_name: Counter[str] = Counter()
        self._unchecked = 0
        """Bytes that may be taken before the file and the disk are read again."""
        self._is_tidying = False
        self._has_reserve = True
        self._refusal_logged_at = self._half_full_logged_at = 0.0

    @asynccontextmanager
    async def reserve(self, holder: Holder, size: int) -> AsyncIterator[None]:
        """Reserve room for a message of `size` bytes of this sender. The block writes it.

        Raises:
            StoreFull: there is no room, or the sender has too much already.
            StoreUnavailable: the file can't be read.
        """
        self._count_in_flight(holder, size)
        try:
            # Without a file the write fails, with an error that says so.
            with suppress(OSError):
                await self._check(holder, size)
            yield
            self._written += size
        finally:
            self._count_in_flight(holder, -size)

    def _count_in_flight(self, holder: Holder, size: int) -> None:
        self._in_flight += size
        for name in holder.names:
            self._in_flight_by_name[name] += size
            if not self._in_flight_by_name[name]:
                del self._in_flight_by_name[name]

    async def _check(self, holder: Holder, size: int) -> None:
        """Check that there is room for a message that is counted as in flight."""
        self._unchecked -= size
        if self._unchecked >= 0:
            return
        most, used = self._bounds()
        before = used - size
        # With this much room, a sender may even have all that is used.
        if has_room(most, before, size, before, before, before):
            self._unchecked = (most - used) // _UNCHECKED_PART
            return
        # Counted before the read: a message may be committed after it, and end before it returns.
        in_flight = [self._in_flight_by_name[name] - size for name in holder.names]
        written = self._written
        state, on_record = await self._reads.run(partial(_read_state, holder=holder))
        self._update_state(state, written)
        most, used = self._bounds()
        used_by_holder = [*map(add, on_record, in_flight)]
        if not has_room(most, used - size, size, *used_by_holder):
            self._log_refusal(holder, used_by_holder, most, used)
            raise StoreFull

    def _update_state(self, state: FileState, written: int) -> None:
        """Use a state of the file, unless a later one is known.

        Args:
            written: `_written` before the state was read.
        """
        if written >= self._written_in_state:
            self._state, self._written_in_state = state, written

    async def tidy(self) -> None:
        """Delete what has expired, and give free pages back to the disk. Called once a second.

        Raises:
            StoreUnavailable: the file can't be written.
        """
        if self._is_tidying:
            return
        self._is_tidying = True
        try:
            for _ in range(_ROUNDS):
                written = self._written
                state, has_more = await self._writes.run(partial(tidy, now=self._wall_time()))
                self._update_state(state, written)
                self._unchecked = 0
                if not has_more:
                    break
            self._keep_reserve()
            self._log_half_full()
            if _size(self._path) > self._state.bytes:
                await asyncio.to_thread(_checkpoint, self._path)
        finally:
            self._is_tidying = False

    def _bounds(self) -> tuple[int, int]:
        """The most bytes that may be used, and the bytes used.

        Raises:
            OSError: the file is gone.
        """
        state, in_flight = self._state, self._in_flight + self._written - self._written_in_state
        used = state.used_bytes + in_flight
        length = self._path.stat().st_size
        log_bytes = _size(self._path.with_name(f"{self._path.name}-wal"))
        # What is written takes the disk twice: in the write-ahead log, and later in the file.
        to_write = max(0, state.bytes - length) + max(0, LOG_BYTES - log_bytes)
        on_disk = self._reserve.room() + state.free_bytes - to_write - in_flight
        return used + min(self._most_bytes - used, on_disk), used

    def _keep_reserve(self) -> None:
        try:
            has_reserve = self._reserve.allocate()
        except OSError:  # the folder is gone, or another program has filled the disk
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
        """Log once a day that the store is half full."""
        now = self._wall_time()
        with suppress(OSError):
            most, used = self._bounds()
            if used > most // 2 and now - self._half_full_logged_at >= _HALF_FULL_LOG_SECONDS:
                self._half_full_logged_at = now
                _logger.warning(
                    "the store has %d of the %d MiB that %s allows; from three quarters on senders "
                    "with much in it are refused with store_full",
                    used // _MEBIBYTE, most // _MEBIBYTE, self._bound(most),
                )  # fmt: skip

    def _bound(self, most: int) -> str:
        """The name of the lower bound: the setting's, or the disk's."""
        if most == self._most_bytes:
            return f"EVENFLOW_STORE_BYTES={most}"
        return f"the disk of EVENFLOW_STORE_PATH={self._path}"

    def _log_refusal(
        self, holder: Holder, used_by_holder: Sequence[int], most: int, used: int
    ) -> None:
        now = self._wall_time()
        if now - self._refusal_logged_at < _REFUSAL_LOG_SECONDS:
            return
        self._refusal_logged_at = now
        _logger.warning(
            "store_full: %s allows %d MiB, and the store has %d; tenant %s was refused. "
            "MiB of the tenant, the address, and its session or user: %s. Senders with less are "
            "still accepted; messages that expire make room",
            self._bound(most), most // _MEBIBYTE, used // _MEBIBYTE, holder.tenant,
            ", ".join(str(size // _MEBIBYTE) for size in used_by_holder),
        )  # fmt: skip


def _read_state(connection: sqlite3.Connection, holder: Holder) -> tuple[FileState, list[int]]:
    return file_state(connection), read_kept(connection, holder)


def _checkpoint(path: Path) -> None:
    """Write the write-ahead log to the file, which cuts off the pages that were given back."""
    with suppress(sqlite3.Error), closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
