"""`evenflow serve`: a server in this process, until a signal ends it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings

if TYPE_CHECKING:
    from evenflow.command_line import Commands

# The settings to try first. All others are variables only.
_OPTIONS = ("host", "port", "model", "model_url", "model_name")
_SETTINGS = {"host": "http_host", "port": "http_port"}


def add_to(commands: Commands) -> None:
    """Add the command."""
    serve = commands.add_parser(
        "serve",
        help="serve the chat page and the APIs, with answers of a model",
        description="Serves until Ctrl-C or SIGTERM. Every setting is an environment variable, "
        "listed in docs/limits.md; an option overrides the variable of the same setting.",
    )
    for option in _OPTIONS:
        variable, field = _variable(option), HandlerSettings.model_fields[_setting(option)]
        serve.add_argument(
            f"--{option.replace('_', '-')}",
            metavar=option.rpartition("_")[2].upper(),
            help=f"{field.description}; {variable} ({field.default or 'none'})",
        )
    serve.add_argument(
        "--role", choices=("handler", "worker"), default="handler",
        help="worker: the model alone, for handlers with EVENFLOW_MODEL=grpc (%(default)s)",
    )  # fmt: skip
    serve.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # The other commands need none of the server's many modules.
    from evenflow.fargate_handler.__main__ import run  # noqa: PLC0415

    options = {option: getattr(arguments, option) for option in _OPTIONS}
    settings = {option: value for option, value in options.items() if value is not None}
    if "model_url" in settings and _variable("model") not in os.environ:
        settings.setdefault("model", "openai")
    # Other processes of this server inherit them.
    os.environ.update({_variable(option): value for option, value in settings.items()})
    return run(arguments.role)


def _setting(option: str) -> str:
    return _SETTINGS.get(option, option)


def _variable(option: str) -> str:
    return f"EVENFLOW_{_setting(option).upper()}"
