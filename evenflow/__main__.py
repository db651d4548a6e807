"""`evenflow`, or `python -m evenflow`: runs a server, and manages running ones."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence

from evenflow import __version__, operate, serve, store_copies, tenants
from evenflow.command_line import CommandFailed, Parser
from evenflow.doctor import command as doctor
from evenflow.fargate_handler.runtime.standard_descriptors import open_standard_descriptors
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.stream_core.stores.response_store import StoreUnavailable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit status: the command's, 1 if it can't be done, 2 for wrong arguments or a wrong
        configuration.
    """
    open_standard_descriptors()
    parser = Parser(prog="evenflow", description=__doc__)
    parser.add_argument("--version", action="version", version=f"evenflow {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in (serve, tenants, operate, store_copies, doctor):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        result: Coroutine[None, None, int | None] | int = options.run(options)
        # `serve` has a loop of its own.
        status = result if isinstance(result, int) else asyncio.run(result)
    except ConfigurationError as error:
        print(f"evenflow: {error}", file=sys.stderr)
        return 2
    except (CommandFailed, StoreUnavailable) as error:
        print(f"evenflow: {error}", file=sys.stderr)
        return getattr(error, "status", 1)
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
