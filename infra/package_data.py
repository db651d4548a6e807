"""Where the files are that infra deploys: in a checkout beside it, in a package within it.

setup.py puts them there.
"""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).resolve().parent  # evenflow/infra is a link to it
CHECKOUT = _HERE.parent
"""The folder of our packages. In a checkout it has everything else, too."""


def built_page() -> Path:
    """The folder of the built page. It may be missing."""
    return _in_package_or_checkout("page", "web/dist")


def functions_lock() -> Path:
    """The hashed requirements of the functions."""
    return _in_package_or_checkout("requirements", "requirements") / "functions.txt"


def runbooks() -> Path:
    """The folder of the pages that alarms name."""
    return _in_package_or_checkout("runbooks", "docs/runbooks")


def _in_package_or_checkout(packaged: str, checked_out: str) -> Path:
    inside = _HERE / packaged
    return inside if inside.is_dir() else CHECKOUT / checked_out


def functions_cache() -> Path:
    """The folder for functions' packages that were made once."""
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / ".build" / "functions"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "evenflow", "functions")
