"""All stores of one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLettersUnavailable
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, StoreUnavailable
from evenflow.stream_core.tenants.usage_store import KEPT_SECONDS
from evenflow.stream_sqlite.file import FileUnusable, connect, file_state, prepare, signing_key
from evenflow.stream_sqlite.file_watch import FileWatch
from evenflow.stream_sqlite.large_texts import SQLiteLargeTexts
from evenflow.stream_sqlite.node_reports import SQLiteNodeReports
from evenflow.stream_sqlite.process_lock import ProcessLock
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.response_store import SQLiteResponseStore
from evenflow.stream_sqlite.room import UNBOUNDED, Room
from evenflow.stream_sqlite.session_store import SQLiteSessionStore
from evenflow.stream_sqlite.tenant_store import SQLiteTenantStore
from evenflow.stream_sqlite.usage_store import SQLiteUsageStore
from evenflow.stream_sqlite.writes import Writes

# As long as an SQS queue keeps them. They are for people too.
_LETTER_SECONDS = 14 * 86_400.0


class SQLiteStores:
    """The stores of this process in one file. Other processes may have the same file open.

    Args:
        path: the file. It is made with its folder if there is none.
        wall_time: seconds since the epoch.
        lifetime: how long messages of chats are kept, in seconds.
        usage_kept: the same of usage records.
        most_bytes: the most bytes that may be used in the file.

    Raises:
        FileUnusable: the file can't be used. The message says what to do.
    """

    def __init__(
        self,
        path: Path,
        wall_time: Callable[[], float],
        lifetime: float = LIFETIME_SECONDS,
        usage_kept: float = KEPT_SECONDS,
        most_bytes: int = UNBOUNDED,
    ) -> None:
        path = path.absolute()  # SQLite would read names like `:memory:` otherwise
        prepare(path)
        try:
            with closing(connect(path)) as connection:
                self.signing_key = signing_key(connection)
                state = file_state(connection)
            self._lock = ProcessLock(path)
        except (sqlite3.Error, OSError) as error:
            raise FileUnusable(
                f"{error}; this process must be able to write the file and others beside it"
            ) from error
        # Others take over when nothing more of this process is written.
        self._writes = Writes(path, kept_open=(self._lock.descriptor,))
        self._reads = Reads(path)
        # A connection of their own, so that no answer waits for a report of usage.
        self._reports = Reads(path)
        self.room = Room(path, state, most_bytes, self._writes, self._reads, wall_time)
        self.responses = SQLiteResponseStore(self._writes, self._reads, self._lock)
        self.sessions = SQLiteSessionStore(self._writes, self._reads, self.room, lifetime)
        self.usage = SQLiteUsageStore(self._writes, self._reads, self._reports, usage_kept)
        self.tenants = SQLiteTenantStore(self._writes, self._reads)
        self.dead_letters = SQLiteDeadLetters(self._writes)
        self.large_texts = SQLiteLargeTexts(self._writes, self._reads, wall_time)
        self.node_reports = SQLiteNodeReports(self._writes, self._reads)
        self.watch = FileWatch(path, self._lock, (self._reads, self._reports), self._writes)

    def close(self) -> None:
        """Finish the operations that wait, and close the file."""
        self._reads.close()
        self._reports.close()
        self._writes.close()
        self._lock.release()


class SQLiteDeadLetters:
    """Dead letters in SQLite (`DeadLetters`), one for each response."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    async def send(self, letter: DeadLetter) -> None:
        try:
            await self._writes.run(partial(_send, letter=letter), durable=True)
        except StoreUnavailable as error:
            raise DeadLettersUnavailable(f"the dead letter was not kept: {error}") from error


def _send(connection: Connection, letter: DeadLetter) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            letter.response_id,
            letter.channel,
            letter.message_id,
            letter.attempts,
            letter.reason,
            letter.at,
            letter.at + _LETTER_SECONDS,
        ),
    )
