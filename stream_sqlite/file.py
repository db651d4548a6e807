"""Opening the file: its folder, its modes, its version, and how safely it is written."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from stream_sqlite.schema import APPLICATION_ID, TABLES, VERSION

BUSY_SECONDS = 5.0
"""How long a call waits while another process writes: shorter than a lease."""

_OLDEST_SQLITE = (3, 38, 0)
_KEY_BYTES = 32


class FileUnusable(Exception):
    """The file can't be used as it is; the message says why, and what to do."""


def prepare(path: Path) -> None:
    """Make the file and its folder, where they are not there, for their owner alone.

    Raises:
        FileUnusable: the file can't be made, or is something else.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise FileUnusable(f"this Python has SQLite {sqlite3.sqlite_version}; 3.38 or newer is needed")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the files that it puts beside it the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(connect(path)) as connection:
            _prepare(connection)
    except (OSError, sqlite3.Error) as error:
        raise FileUnusable(f"{error}; it must be a file that this process can write, on a local disk") from error


def connect(path: Path) -> sqlite3.Connection:
    """A connection for one thread, which begins and ends its transactions itself.

    Raises:
        sqlite3.Error: the file can't be opened.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def signing_key(connection: sqlite3.Connection) -> str:
    """The secret that whoever shares the file signs session tokens with."""
    secret: str = connection.execute("SELECT secret FROM signing_key").fetchone()[0]
    return secret


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    # Two processes that start at once make the tables once.
    connection.execute("BEGIN IMMEDIATE")
    is_new = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if is_new:
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO signing_key VALUES (?)", (secrets.token_urlsafe(_KEY_BYTES),))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
    else:
        _check(connection)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise FileUnusable("it is another program's database; name another file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise FileUnusable(
            f"it has version {version} of the tables, and this program version {VERSION}: "
            "start the program that wrote it, or move the file away to begin with an empty one"
        )
