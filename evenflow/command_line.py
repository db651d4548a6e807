"""The base of all commands: their parser, and the error that ends them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - it has no other name
    """Where a command adds itself: `commands.add_parser(…)`, and `set_defaults(run=…)` on that."""


class CommandFailed(Exception):
    """A command can't be carried out. The message is one line, and nothing was changed.

    Args:
        status: the exit status.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: what is wrong, and what is accepted."""

    def error(self, message: str) -> NoReturn:
        """End with the status 2."""
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists what there is\n")
