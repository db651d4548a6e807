"""Copies of the SQLite file: made while servers use it, checked, and put back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from evenflow.stream_sqlite.file import APPLICATION_ID, UPGRADES, VERSION
from evenflow.stream_sqlite.process_lock import is_in_use

# Pages of 4 KiB. A step reads 16 MiB, then others may go on.
_PAGES_OF_A_STEP = 4_096
# Beside the file, and a part of it.
_PARTS = ("-wal", "-shm")
_KEPT_SUFFIX = ".before-restore"

CopyProgress = Callable[[float], None]
"""Called with the share of the file that is copied, from 0 to 1."""


class CopyFailed(Exception):
    """A copy can't be made, checked or put back. The message says why, and what was kept."""


class CheckedFile(NamedTuple):
    """What a check has found.

    Args:
        version: of its tables.
        faults: what is wrong, in SQLite's words. Empty: nothing is.
    """

    version: int
    sessions: int
    messages: int
    responses: int
    tenants: int
    faults: list[str]


def back_up(source: Path, target: Path, progress: CopyProgress) -> None:
    """Copy the file as it is at one moment, with what is in its write-ahead log.

    Raises:
        CopyFailed: the copy was not made, and nothing is left of it.
    """
    if target.exists():
        raise CopyFailed(f"{target} exists already, and was not changed: name another file")
    part = target.with_name(f"{target.name}.part")
    try:
        # The copy has the tokens' signing key, and all that was said.
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        with (
            closing(_opened(source, "ro")) as read,
            closing(sqlite3.connect(part, isolation_level=None)) as written,
        ):
            # In one transaction: otherwise each write of a server would begin the copy anew.
            read.execute("BEGIN")
            read.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            read.backup(
                written,
                pages=_PAGES_OF_A_STEP,
                progress=lambda _, remaining, total: progress(1 - remaining / max(1, total)),
            )
            # A file of its own, without a log beside it.
            written.execute("PRAGMA journal_mode=DELETE")
        if faults := check(part).faults:
            raise CopyFailed(f"the copy of {source} is faulty: {faults[0]}")
        part.rename(target)
    except (OSError, sqlite3.Error) as error:
        raise CopyFailed(f"{source} was not copied to {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def check(path: Path) -> CheckedFile:
    """Read the whole file, and check it.

    Raises:
        CopyFailed: it can't be read, or is no store.
    """
    try:
        with closing(_opened(path, "ro")) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise CopyFailed(f"{path} is no store of Evenflow")
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION and version not in UPGRADES:
                raise CopyFailed(
                    f"{path} has tables of version {version}, and this program reads up to "
                    f"{VERSION}: use the program that wrote it"
                )
            faults = [
                str(row[0])
                for row in connection.execute("PRAGMA integrity_check")
                if row[0] != "ok"
            ]
            faults += [
                f"a row of {row[0]} belongs to nothing"
                for row in connection.execute("PRAGMA foreign_key_check")
            ]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
            counts = [
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                if table in tables
                else 0
                for table in ("sessions", "messages", "responses", "tenants")
            ]
            sessions, messages, responses, tenants = counts
            return CheckedFile(version, sessions, messages, responses, tenants, faults)
    except sqlite3.Error as error:
        raise CopyFailed(f"{path} can't be read: {error}") from error


def restore(copy: Path, path: Path, progress: CopyProgress) -> Path | None:
    """Put a copy in the place of the file. No server may use it.

    Returns:
        Where the file that was there is kept now. None: there was none.

    Raises:
        CopyFailed: nothing was changed.
    """
    if faults := check(copy).faults:
        raise CopyFailed(f"{copy} is faulty, and nothing was changed: {faults[0]}")
    if path.exists() and is_in_use(path):
        raise CopyFailed(f"a server uses {path}: stop it first; nothing was changed")
    new = path.with_name(f"{path.name}.restored")
    new.unlink(missing_ok=True)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    back_up(copy, new, progress)
    earlier = path.with_name(f"{path.name}{_KEPT_SUFFIX}") if path.exists() else None
    try:
        if earlier is not None:
            for suffix in ("", *_PARTS):
                part = path.with_name(path.name + suffix)
                if part.exists():
                    part.replace(earlier.with_name(earlier.name + suffix))
        new.rename(path)
    except OSError as error:
        raise CopyFailed(f"{copy} was not restored to {path}: {error}") from error
    return earlier


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)
