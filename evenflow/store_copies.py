"""`evenflow store`: copies of the SQLite file, made and checked while a server runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.command_line import CommandFailed
from evenflow.opened_store import server_variable
from evenflow.stream_sqlite import copies

if TYPE_CHECKING:
    from evenflow.command_line import Commands

_SHOWN_FROM_BYTES = 67_108_864


def add_to(commands: Commands) -> None:
    """Add the command."""
    store = commands.add_parser("store", help="back up, restore and check the SQLite file")
    actions = store.add_subparsers(metavar="action", required=True)
    backup = actions.add_parser("backup", help="copy the file while servers use it")
    backup.add_argument("to", type=Path, help="the copy, a file that isn't there yet")
    backup.set_defaults(run=_back_up)
    restore = actions.add_parser("restore", help="put a copy in its place; no server may run")
    restore.add_argument("copy", type=Path)
    restore.set_defaults(run=_restore)
    check = actions.add_parser("check", help="read the whole file, or a copy, and check it")
    check.add_argument("file", type=Path, nargs="?", help="else that of EVENFLOW_STORE_PATH")
    check.set_defaults(run=_check)


def _back_up(arguments: argparse.Namespace) -> int:
    source = _store_path()
    try:
        copies.back_up(source, arguments.to, _progress_of(source))
    except copies.CopyFailed as error:
        raise CommandFailed(str(error)) from error
    print(f"{source} was copied to {arguments.to}, and the copy is in order")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    path = _store_path()
    try:
        earlier = copies.restore(arguments.copy, path, _progress_of(arguments.copy))
    except copies.CopyFailed as error:
        raise CommandFailed(str(error)) from error
    was_there = "" if earlier is None else f"; the file that was there is {earlier}"
    print(f"{arguments.copy} was restored to {path}{was_there}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    path = arguments.file or _store_path()
    try:
        checked = copies.check(path)
    except copies.CopyFailed as error:
        raise CommandFailed(str(error)) from error
    print(
        f"{path}: version {checked.version}, {checked.sessions} sessions, "
        f"{checked.messages} messages, {checked.responses} responses, {checked.tenants} tenants"
    )
    for fault in checked.faults:
        print(f"evenflow: {fault}", file=sys.stderr)
    return 1 if checked.faults else 0


def _store_path() -> Path:
    """The file of this machine's servers.

    Raises:
        CommandFailed: they have none.
    """
    store = server_variable("store")
    if store != "sqlite":
        raise CommandFailed(
            f"EVENFLOW_STORE={store} has no file; DynamoDB's tables have point-in-time recovery: "
            "docs/runbooks/restore-tables.md"
        )
    path = Path(server_variable("store_path"))
    return path.absolute()


def _progress_of(path: Path) -> copies.CopyProgress:
    """Shows on a terminal how far the copy of a large file is."""
    is_shown = sys.stderr.isatty() and path.exists() and path.stat().st_size >= _SHOWN_FROM_BYTES

    def show(share: float) -> None:
        if is_shown:
            print(f"\r{share:4.0%}", end="\n" if share >= 1 else "", file=sys.stderr, flush=True)

    return show
