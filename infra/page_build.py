"""Builds the page if it is missing, since it is an asset of the edge's templates."""

from __future__ import annotations

import shutil
import subprocess
import sys

from evenflow.infra.constructs.edge.web_client import PageNotBuiltError
from evenflow.infra.package_data import CHECKOUT, built_page

_WEB = CHECKOUT / "web"


def build_missing_page() -> None:
    """Build the page with npm, unless it is there. Sources that changed since don't count.

    Raises:
        PageNotBuiltError: npm is missing, or it failed.
    """
    if (built_page() / "index.html").is_file() or not (_WEB / "package.json").is_file():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise PageNotBuiltError(
            "web/dist/index.html is missing, and so is npm, which builds it: install Node.js"
        )
    print("web/dist is missing: npm builds the page, once", file=sys.stderr)
    steps = [["run", "--silent", "build"]]
    if not (_WEB / "node_modules").is_dir():
        steps.insert(0, ["ci", "--silent", "--no-audit", "--no-fund"])
    for step in steps:
        # The npm that is first in the caller's PATH, with arguments of ours.
        result = subprocess.run(  # noqa: S603
            [npm, *step], cwd=_WEB, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise PageNotBuiltError(
                f"npm {step[0]} failed in web/, so there is no page to deploy:\n"
                f"{result.stdout}{result.stderr}"
            )
