"""The paths of the files that infra deploys, the same in a checkout and in a wheel (setup.py)."""

from __future__ import annotations

import os
from pathlib import Path

# evenflow/infra is a link in a checkout.
CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder of our packages. In a checkout it has everything else, too."""


def built_page() -> Path:
    """The folder of the built page. It may be missing."""
    return CHECKOUT / "web" / "dist"


def functions_lock() -> Path:
    """The hashed requirements of the functions."""
    return CHECKOUT / "requirements" / "functions.txt"


def runbooks() -> Path:
    """The folder of the pages that alarms name."""
    return CHECKOUT / "docs" / "runbooks"


def functions_cache() -> Path:
    """The cache of functions' packages."""
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / ".build" / "functions"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "evenflow", "functions")
