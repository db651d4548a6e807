"""The SQLite file: opened, checked and brought to the schema."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES
from evenflow.stream_sqlite.process_lock import is_in_use
from evenflow.stream_sqlite.reserve import Reserve
from evenflow.stream_sqlite.usage_tables import TOTALS_OF_RECORDS, USAGE_TABLES

_logger = logging.getLogger(__name__)

LOG_BYTES = 4_194_304
"""The size to which SQLite truncates the write-ahead log after a checkpoint. By default it makes a
checkpoint at about this size."""
# The largest file of an earlier version that is rewritten at the start, so that it can shrink. That
# takes some seconds.
_REWRITTEN_BYTES = 268_435_456
# What a start writes at most: the write-ahead log, its index, and a few rows.
_START_BYTES = 1_048_576

VERSION = 6
"""The version of the tables. Raise it with every change, put the statements into `UPGRADES`, and
add them to `_prepare` for new files."""

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

KEPT_TABLES = (
    "ALTER TABLE messages ADD COLUMN sender TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE messages ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN packed BLOB",
    "ALTER TABLE large_texts ADD COLUMN packed BLOB",
    """CREATE TABLE kept_bytes (
    holder TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
)
"""How many bytes are kept: of each message in its row, and the sum of each sender."""
# Messages of an earlier version are counted as 0 bytes until they change.
_KEPT_OF_RECORDS = (
    f"INSERT INTO kept_bytes SELECT tenant, count(*) * {USAGE_BYTES} FROM usage_records "
    "GROUP BY tenant"
)

UPGRADES = {
    1: (
        "ALTER TABLE responses ADD COLUMN form INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE sessions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN outcome TEXT NOT NULL DEFAULT ''",
    ),
    2: TENANT_TABLES,
    3: TASK_TABLES,
    4: ("ALTER TABLE messages ADD COLUMN parent_message_id TEXT", _BRANCHES_INDEX),
    5: (*KEPT_TABLES, _KEPT_OF_RECORDS, *USAGE_TABLES, *TOTALS_OF_RECORDS),
}
"""The statements that bring a file from each version to the next."""

APPLICATION_ID = 0x45766E66
"""The mark of our files, `Evnf`."""

# The tables of version 1, with the columns of `UPGRADES[1]` and `[4]`. `_prepare` adds the rest.
# Responses have numbers, which keep the index of the chunks small. It is written to most.
FIRST_TABLES = """
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
"""The tables with rows that expire."""


BUSY_SECONDS = 2.0
"""How long an operation waits while another process writes. Shorter than a lease."""

_OLDEST_SQLITE = (3, 38, 0)
_KEY_BYTES = 32


class FileUnusable(Exception):
    """The file can't be used. The message says why, and what to do."""


class FileState(NamedTuple):
    """The file's pages, including those in its write-ahead log."""

    page_bytes: int
    pages: int
    free_pages: int

    @property
    def bytes(self) -> int:
        """The length of the file after a checkpoint."""
        return self.page_bytes * self.pages

    @property
    def free_bytes(self) -> int:
        """Bytes of free pages, which are used before the file grows."""
        return self.page_bytes * self.free_pages

    @property
    def used_bytes(self) -> int:
        """Bytes of pages in use."""
        return self.bytes - self.free_bytes


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
        Reserve(path).release(_START_BYTES)
        if not path.stat().st_size:
            _make_shrinkable(path)
        with closing(connect(path)) as connection:
            _prepare(connection, path)
            _convert(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise FileUnusable(
            f"{error}; it must be a file that this process can write, on a local disk with room"
        ) from error


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection to an existing file, for one thread. It begins no transactions by itself.

    Raises:
        sqlite3.Error: the file can't be opened.
    """
    # Only `prepare` makes a file: one in the place of a deleted file would be taken for it.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def signing_key(connection: sqlite3.Connection) -> str:
    """The secret that signs session tokens, the same for all processes that share the file."""
    secret: str = connection.execute("SELECT secret FROM signing_key").fetchone()[0]
    return secret


def file_state(connection: sqlite3.Connection) -> FileState:
    """The file as this connection sees it."""
    names = ("page_size", "page_count", "freelist_count")
    return FileState(*(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names))


def _make_shrinkable(path: Path) -> None:
    """Set up a new file so that it can shrink, which has to be before anything is written."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")


def _convert(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite a file of an earlier version so that it can shrink, if that is quick."""
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] or is_in_use(path):
        return
    size = file_state(connection).used_bytes
    # VACUUM writes all of it three times: to a temporary file, to the write-ahead log, and back.
    if size > min(_REWRITTEN_BYTES, Reserve(path).room() // 3):
        _logger.info(
            "EVENFLOW_STORE_PATH=%s: free pages of the file are used again, but the file does not "
            'shrink until it is rewritten: stop all servers, then run sqlite3 %s "PRAGMA '
            'auto_vacuum=2; VACUUM"',
            path, path,
        )  # fmt: skip
        return
    with suppress(sqlite3.OperationalError):  # another process has begun to use it
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("VACUUM")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    # Two processes that start at once must make the tables only once.
    connection.execute("BEGIN IMMEDIATE")
    is_new = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if is_new:
        later = (_BRANCHES_INDEX, *TENANT_TABLES, *TASK_TABLES, *KEPT_TABLES, *USAGE_TABLES)
        for statement in (*FIRST_TABLES.split(";"), *later):
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
    """Check that the file is a store. Returns the version of its tables."""
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
    if is_in_use(path):
        raise FileUnusable(
            f"its tables have version {version}, and a program of that version is using it: "
            "stop that program, and start this one again; nothing was changed"
        )
    for step in range(version, VERSION):
        for statement in UPGRADES[step]:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={VERSION}")
