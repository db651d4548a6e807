"""The command `evenflow doctor`."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.settings.environment import trimmed

if TYPE_CHECKING:
    from evenflow.command_line import Commands

_IDLE_SECONDS = 65.0
_LONGEST_IDLE_SECONDS = 3_600.0
# The exit status that shells use.
_INTERRUPTED = 128 + signal.SIGINT
_KEY_VARIABLE = "EVENFLOW_TENANT_KEY"


def add_to(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add_parser(
        "doctor",
        help="find proxies that disturb a server's streams, and the setting that helps",
        description="Reads answers over each transport, and says which hop buffers, cuts, "
        "compresses, strips or times out. A tenant's key comes from EVENFLOW_TENANT_KEY. Exit "
        "status: 0 nothing is wrong, 1 something is, 2 no check could be made.",
    )
    doctor.add_argument("url", type=_address, help="as readers call it: https://chat.example.com")
    doctor.add_argument(
        "--direct", type=_address, metavar="URL",
        help="the server without the hops, to compare with",
    )  # fmt: skip
    doctor.add_argument(
        "--idle", type=_idle_seconds, default=_IDLE_SECONDS, metavar="SECONDS",
        help="how long connections stay silent (65 finds limits of a minute)",
    )  # fmt: skip
    doctor.add_argument("--origin", help="of a page that should be able to call")
    doctor.add_argument("--tenant", default="public")
    doctor.add_argument("--question", help="its answer should take some seconds")
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(run=_run)


async def _run(arguments: argparse.Namespace) -> int:
    # `evenflow serve` starts 60 ms sooner without the clients that the checks need.
    from evenflow.doctor.diagnosis import Examination, NotReached, diagnose  # noqa: PLC0415
    from evenflow.doctor.report import as_json, as_text  # noqa: PLC0415

    examination = Examination(
        trimmed(os.environ.get(_KEY_VARIABLE, "")) or None,
        arguments.tenant,
        arguments.question,
        arguments.idle,
        arguments.origin,
    )
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _leave)
    progress = asyncio.create_task(_show_progress(arguments.idle))
    try:
        diagnosis, *direct = await asyncio.gather(
            *(
                asyncio.to_thread(diagnose, url, examination)
                for url in (arguments.url, arguments.direct)
                if url is not None
            )
        )
    except NotReached as error:
        raise CommandFailed(str(error), status=2) from error
    finally:
        progress.cancel()
    print((as_json if arguments.json else as_text)(diagnosis, direct[0] if direct else None))
    return int(not diagnosis.is_well)


def _leave() -> NoReturn:
    """Exit at once: checks that wait for a minute can't be cancelled."""
    os._exit(_INTERRUPTED)


async def _show_progress(idle_seconds: float) -> None:
    """Show the progress, on a terminal."""
    if not sys.stderr.isatty():
        print(f"keeping connections silent for {idle_seconds:g} s …", file=sys.stderr, flush=True)
        return
    try:
        for second in range(math.ceil(idle_seconds)):
            line = f"\rkeeping connections silent: {second} of {idle_seconds:g} s "
            print(line, end="", file=sys.stderr, flush=True)
            await asyncio.sleep(1)
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _address(text: str) -> str:
    from evenflow.functions.canary.front_door import FrontDoor  # noqa: PLC0415 - as in `_run`

    try:
        return FrontDoor(text).url
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _idle_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_IDLE_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be seconds, more than 0 and at most {_LONGEST_IDLE_SECONDS:g}"
        )
    return seconds
