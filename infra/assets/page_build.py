"""Builds the page if it is missing, for the edge's deployment and for a wheel.

setup.py runs it where only Python is installed, so it imports no other package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from evenflow.infra.assets.package_data import CHECKOUT

_NODE = "Node.js 20.19 or later"


class PageNotBuiltError(Exception):
    """There is no built page. The message says why, and what to do."""


def build_missing_page(checkout: Path = CHECKOUT) -> None:
    """Build web/dist with npm, unless it is there. Sources that changed since don't count.

    Raises:
        PageNotBuiltError: npm is missing, or it failed.
    """
    web = checkout / "web"
    if (web / "dist" / "index.html").is_file() or not (web / "package.json").is_file():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise PageNotBuiltError(
            f"web/dist/index.html is missing, and so is npm, which builds it: install {_NODE}"
        )
    print("web/dist is missing: npm builds the page, once", file=sys.stderr)
    steps = [["run", "--silent", "build"]]
    if not (web / "node_modules").is_dir():
        steps.insert(0, ["ci", "--silent", "--no-audit", "--no-fund"])
    for step in steps:
        # The npm that is first in the caller's PATH, with arguments of ours.
        result = subprocess.run(  # noqa: S603
            [npm, *step], cwd=web, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise PageNotBuiltError(
                f"npm {step[0]} failed in web/, so there is no page; it needs {_NODE}:\n"
                f"{result.stdout}{result.stderr}"
            )
