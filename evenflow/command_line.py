"""What all commands have in common: how they are parsed, and how they fail."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - it has no other name
    """Where a command adds itself: `commands.add_parser(…)`, and `set_defaults(run=…)` on that."""


class CommandFailed(Exception):
    """What was asked for can't be done. The message is one line, and nothing was changed.

    Args:
        status: the exit status.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong and what is accepted."""

    def error(self, message: str) -> NoReturn:
        """End with the status 2."""
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists what there is\n")
