"""CDK's context for the commands that don't run under `cdk`: they find it where `cdk` does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"
LOOKED_UP = "cdk.context.json"
"""The file of what was looked up once, in the folder that `cdk` runs in."""
DEFAULT_QUALIFIER = "hnb659fds"
"""CDK's own. Importing it from CDK would start Node."""


def add_context_argument(parser: argparse.ArgumentParser) -> None:
    """Add `-c key=value`, as `cdk` has it."""
    parser.add_argument(
        "-c", "--context", action="append", default=[], metavar="KEY=VALUE", help="as for cdk"
    )


def read_context(pairs: Sequence[str] = (), folder: Path | None = None) -> dict[str, Any]:
    """What is given: by `key=value` first, then by cdk.json, cdk.context.json and ~/.cdk.json.

    Args:
        folder: where the files are. None: the current folder.
    """
    folder = folder or Path.cwd()
    return {
        **_read(Path.home() / ".cdk.json").get("context", {}),
        **_read(folder / LOOKED_UP),
        **_read(folder / "cdk.json").get("context", {}),
        **{key: value for key, _, value in (pair.partition("=") for pair in pairs)},
    }


def bootstrap_qualifier(context: Mapping[str, Any]) -> str:
    """Which of the account's bootstraps CDK uses: it is in the names of its roles and bucket."""
    return str(context.get(_QUALIFIER) or DEFAULT_QUALIFIER)


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return found
