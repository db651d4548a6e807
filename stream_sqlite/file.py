"""The SQLite file: opened, checked, locked and brought to the schema."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from evenflow.stream_sqlite.usage_tables import TOTALS_OF_RECORDS, USAGE_TABLES

_LOCK_INFIX = "-process-"
# A process makes its lock anew when somebody has deleted it: it looks once a second.
_MISSING_SECONDS = 2.0
# What the log of writes shrinks to when nobody reads in it any more; SQLite empties it by itself
# when it has as much.
_LOG_BYTES = 4_194_304

FileId = tuple[int, int]
"""Which file it is that has a name, whoever else had that name before."""


def file_id(path: Path) -> FileId | None:
    """Which file has this name now. None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class ProcessLock:
    """The lock of this process: a file beside the database, locked until the process ends, and
    the one that writes for it.

    Args:
        database: the shared file.
        monotonic: seconds.

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
        """Make the lock anew if somebody has deleted its file. Returns whether that was so.

        Raises:
            OSError: it can't be made.
        """
        if file_id(self._path) is not None:
            return False
        made = self._make()
        os.close(self.descriptor)
        self.descriptor = made
        return True

    def release(self) -> None:
        """Give the lock up, because the process ends."""
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def is_gone(self, name: str) -> bool:
        """Whether the process with this lock has ended. If so, its file is deleted.

        One whose file is missing may have lost it to a cleaner of files, and gets time to notice.
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


VERSION = 6
"""The version of the tables. Raise it with every change, and say in `UPGRADES` what changes."""

TENANT_TABLES = (
    "CREATE TABLE tenants (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT",
    "CREATE TABLE tenants_revision (revision INTEGER NOT NULL) STRICT",
    "INSERT INTO tenants_revision VALUES (0)",
    """
CREATE TABLE tenant_activity (
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    service REAL NOT NULL,
    requests INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    answers INTEGER NOT NULL,
    connections INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    UNIQUE (tenant, task)
) STRICT""",
    """CREATE TABLE reservations (
    tenant TEXT NOT NULL,
    response_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at REAL NOT NULL,
    amounts TEXT NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (tenant, response_id)
) STRICT""",
    """CREATE TABLE budget_counters (
    tenant TEXT NOT NULL,
    counter TEXT NOT NULL,
    committed INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (tenant, counter)
) STRICT""",
    "CREATE INDEX expiring_budget_counters ON budget_counters (expires_at)",
    """CREATE TABLE usage_records (
    tenant TEXT NOT NULL,
    response_id TEXT NOT NULL,
    day TEXT NOT NULL,
    user TEXT NOT NULL,
    record TEXT NOT NULL,
    counted TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (tenant, response_id)
) STRICT""",
    "CREATE INDEX usage_records_of_days ON usage_records (tenant, day)",
    "CREATE INDEX expiring_usage_records ON usage_records (expires_at)",
)

TASK_TABLES = (
    """CREATE TABLE task_calls (
    task TEXT PRIMARY KEY,
    row TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT""",
    "ALTER TABLE tenant_activity ADD COLUMN expected REAL NOT NULL DEFAULT 0",
)

BRANCHES = "(replaces IS NOT NULL OR parent_message_id IS NOT NULL)"
"""Whether a message begins a branch of its conversation."""
_BRANCHES_INDEX = f"CREATE INDEX branches ON messages (channel) WHERE {BRANCHES}"

UPGRADES = {
    1: (
        "ALTER TABLE responses ADD COLUMN form INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE sessions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN outcome TEXT NOT NULL DEFAULT ''",
    ),
    2: TENANT_TABLES,
    3: TASK_TABLES,
    4: ("ALTER TABLE messages ADD COLUMN parent_message_id TEXT", _BRANCHES_INDEX),
    5: (*USAGE_TABLES, *TOTALS_OF_RECORDS),
}
"""The statements that bring a file from each version to the next."""

APPLICATION_ID = 0x45766E66
"""The mark of our files, `Evnf`."""

# Responses have numbers, which keep the index of the chunks small. It is written to most.
TABLES = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    response_id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    starts TEXT NOT NULL,
    polls INTEGER NOT NULL DEFAULT 0,
    hand_overs INTEGER NOT NULL DEFAULT 0,
    handed_over_epoch INTEGER,
    ending TEXT,
    form INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX unfinished_responses ON responses (owner) WHERE ending IS NULL;
CREATE INDEX expiring_responses ON responses (expires_at);

CREATE TABLE chunks (
    response INTEGER NOT NULL REFERENCES responses ON DELETE CASCADE,
    last_index INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first_index INTEGER NOT NULL,
    began_at REAL NOT NULL,
    entries TEXT NOT NULL,
    UNIQUE (response, last_index, epoch, first_index)
) STRICT;

CREATE TABLE leases (
    owner TEXT PRIMARY KEY,
    owned_until REAL NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0,
    address TEXT,
    process TEXT,
    expires_at REAL NOT NULL
) STRICT;

CREATE TABLE sessions (
    channel TEXT PRIMARY KEY,
    last_message_id TEXT NOT NULL,
    expires_at REAL NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX expiring_sessions ON sessions (expires_at);

CREATE TABLE messages (
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    previous_message_id TEXT,
    text TEXT NOT NULL,
    response_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    answer TEXT,
    ended INTEGER NOT NULL,
    replaces TEXT,
    terms TEXT NOT NULL,
    kind TEXT NOT NULL,
    text_name TEXT,
    expires_at REAL NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    parent_message_id TEXT,
    UNIQUE (channel, message_id)
) STRICT;
CREATE INDEX expiring_messages ON messages (expires_at);

CREATE TABLE large_texts (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT;
CREATE INDEX expiring_large_texts ON large_texts (expires_at);

CREATE TABLE dead_letters (
    response_id TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

CREATE TABLE signing_key (secret TEXT NOT NULL) STRICT;

"""

EXPIRING = (
    *("responses", "leases", "sessions", "messages", "large_texts", "dead_letters"),
    *("tenant_activity", "budget_counters", "usage_records", "usage_totals", "task_calls"),
)
"""The tables whose rows expire."""


BUSY_SECONDS = 2.0
"""How long an operation waits while another process writes. Shorter than a lease."""

_OLDEST_SQLITE = (3, 38, 0)
_KEY_BYTES = 32


class FileUnusable(Exception):
    """The file can't be used. The message says why, and what to do."""


def prepare(path: Path) -> None:
    """Make the file and its folder, readable for their owner alone, or check the file.

    Raises:
        FileUnusable: the file can't be made, or isn't one of ours.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise FileUnusable(
            f"this Python has SQLite {sqlite3.sqlite_version}; 3.38 or newer is needed"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the files that it makes beside it the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(connect(path)) as connection:
            _prepare(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise FileUnusable(
            f"{error}; it must be a file that this process can write, on a local disk"
        ) from error


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection for one thread. Its transactions begin and end only when told.

    Raises:
        sqlite3.Error: the file can't be opened.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def signing_key(connection: sqlite3.Connection) -> str:
    """The secret that signs session tokens, the same for all processes that share the file."""
    secret: str = connection.execute("SELECT secret FROM signing_key").fetchone()[0]
    return secret


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    # Two processes that start at once must make the tables only once.
    connection.execute("BEGIN IMMEDIATE")
    is_new = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if is_new:
        tables = (*TABLES.split(";"), _BRANCHES_INDEX, *TENANT_TABLES, *TASK_TABLES, *USAGE_TABLES)
        for statement in tables:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO signing_key VALUES (?)", (secrets.token_urlsafe(_KEY_BYTES),)
        )
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
    else:
        version = _check(connection)
        if version < VERSION:
            _upgrade(connection, path, version)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection) -> int:
    """Check whose file it is. Returns the version of its tables."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise FileUnusable("it is another program's database; name another file")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION and version not in UPGRADES:
        raise FileUnusable(
            f"its tables have version {version}, and this program needs version {VERSION}: "
            "start the program that wrote it, or move the file away to begin with an empty one"
        )
    return version


def _upgrade(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring the tables to this version. What is in them stays."""
    # A program of the earlier version would not understand what this one writes.
    prefix = f"{path.name}{_LOCK_INFIX}"
    locks = [lock for lock in path.parent.iterdir() if lock.name.startswith(prefix)]
    if any(_is_locked(lock) for lock in locks):
        raise FileUnusable(
            f"its tables have version {version}, and a program of that version is using it: "
            "stop that program, and start this one again; nothing was changed"
        )
    for step in range(version, VERSION):
        for statement in UPGRADES[step]:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={VERSION}")
